"""A compiler over a byte vocabulary, and random walks within its masks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.core.constraint import Constraint
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import OutputFormat
from dragoman.core.tools import Tool
from dragoman.engines.fake import FakeScript, FakeTokenizer
from dragoman.grammar.compiler import Compiler
from dragoman.grammar.mask import GrammarMask
from dragoman.sampling.mask import unpacked

DATA = Path(__file__).parent / "data"
SCHEMAS: dict[str, Any] = json.loads((DATA / "schemas.json").read_text())
REFUSED: list[tuple[Any, str]] = [tuple(entry) for entry in json.loads((DATA / "refused.json").read_text())]

TOKENIZER = FakeTokenizer(FakeScript())
COMPILER = Compiler(TOKENIZER)
THINKS = ReplyFormat(think_open="<think>", think_close="</think>")

_CLOSING = b'"}],'


def schema_format(schema: Any, **fields: Any) -> OutputFormat:
    return OutputFormat("json_schema", json.dumps(schema), **fields)


def text_of(format: OutputFormat, **fields: Any) -> str:
    return COMPILER.compile(Constraint(format=format, **fields))


def verdict(grammar: str, text: str, compiler: Compiler = COMPILER) -> str:
    """'whole', 'open' (may go on), 'part' (must go on) or 'no'."""
    matcher = compiler.matcher(grammar)
    tokens = TOKENIZER.encode(text, add_special=False, parse_special=True)
    if not matcher.consume_tokens(tokens):
        return "no"
    if not matcher.is_accepting():
        return "part"
    return "whole" if matcher.is_stopped() else "open"


def accepts(grammar: str, text: str) -> bool:
    return verdict(grammar, text) in ("whole", "open")


def walk(mask: GrammarMask, seed: int, most: int = 4000) -> bytes | None:
    """A random text within the mask, None where it did not end. Closing marks are likelier than other bytes, and the
    end is taken every second time it is allowed."""
    chance = random.Random(seed)
    words = np.zeros(-(-TOKENIZER.size // 32), np.int32)
    written = b""
    for _ in range(most):
        assert mask.fill(words)
        allowed = np.flatnonzero(unpacked(words, TOKENIZER.size)).tolist()
        ends = [token for token in allowed if token in TOKENIZER.stop_tokens]
        rest = [token for token in allowed if token not in TOKENIZER.stop_tokens]
        if ends and (not rest or chance.random() < 0.5):
            return written
        weights = [20 if TOKENIZER.token_bytes(token) in (b'"', b"}", b"]", b",") else 1 for token in rest]
        token = chance.choices(rest, weights)[0]
        written += TOKENIZER.token_bytes(token)
        mask.advance(token)
        if mask.complete:
            return written
    return None


def tool(name: str, strict: bool = False, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name, None, schema, strict, f"tools.{name}")
