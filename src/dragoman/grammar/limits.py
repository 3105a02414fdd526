"""How large a constraint may be, and how much work it may cause. Hostile ones are refused, never stalled on.

The counts stay well below what makes a compiler of either engine run out of stack, which would take the process down.
"""

from __future__ import annotations

from llguidance import LLParserLimits
from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """`text_bytes` of one schema, regex or grammar; `schema_depth` how deep schemas may nest, `schema_nodes` how many
    there may be, references followed; `definitions` how many different ones they may point at; `largest_minimum` the
    most items, properties or characters a schema may insist on, `largest_bound` the maximum from which on a bound is
    past every window and has no effect; `rules` of a grammar, `rule_depth` how deep they may use each other,
    `brackets` how deep brackets may nest; `calls` the most calls in one answer that has to be calls, since nothing
    else would end that of a model which repeats itself; `cpu_seconds` of one compilation, which llama.cpp repeats for
    every answer while its other answers stand still; `seconds` is how long it may take on a busy machine; `compilers`
    how many run at once."""

    text_bytes: int = 512 * 1024
    schema_depth: int = 50
    schema_nodes: int = 20_000
    definitions: int = 300
    largest_minimum: int = 20_000
    largest_bound: int = 1_000_000
    rules: int = 2_000
    rule_depth: int = 150
    brackets: int = 50
    calls: int = 8
    cpu_seconds: float = 1.0
    seconds: float = 5.0
    compilers: int = 2


def parser_limits() -> LLParserLimits:
    """Bounds on the matcher's own work: its defaults, which llama.cpp's build has too, and half the lexer states."""
    return LLParserLimits(max_lexer_states=100_000, verbose_errors=False)
