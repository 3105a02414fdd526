"""Thoughts come first and are free; the constraint begins behind them (cases 12 and 15)."""

from __future__ import annotations

import pytest

from dragoman.core.constraint import Constraint
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import OutputFormat
from dragoman.core.tools import ToolChoice
from tests.grammar.rig import COMPILER, THINKS, text_of, tool, verdict

# A tag that is one special token of this vocabulary.
TOKENS = ReplyFormat(think_open="<|bos|>", think_close="<|im_start|>")


@pytest.mark.parametrize("format", [THINKS, TOKENS], ids=["text", "tokens"])
@pytest.mark.parametrize("behind", ["", "\n", "\n\n"])
def test_an_open_thought_ends_before_the_constraint(format: ReplyFormat, behind: str) -> None:
    grammar = text_of(OutputFormat("json"), reply=format, thinking_open=True)
    assert verdict(grammar, '{"a": 1}') == "part"
    assert verdict(grammar, f'hm {{ <thi{format.think_close}{behind}{{"a": 1}}') == "whole"
    assert verdict(grammar, f"hm{format.think_close}{behind}no") == "no"


@pytest.mark.parametrize("format", [THINKS, TOKENS], ids=["text", "tokens"])
def test_a_thought_the_model_opens_itself(format: ReplyFormat) -> None:
    grammar = text_of(OutputFormat("json"), reply=format, may_think=True)
    assert verdict(grammar, '{"a": 1}') == "whole"
    assert verdict(grammar, f'{format.think_open}so{format.think_close}\n\n{{"a": 1}}') == "whole"
    assert verdict(grammar, "so") == "no"


def test_without_thinking_the_constraint_holds_from_the_first_token() -> None:
    grammar = text_of(OutputFormat("json"), reply=THINKS)
    assert verdict(grammar, "<think>") == "no"


@pytest.mark.parametrize("kind", ["regex", "choice", "lark", "gbnf"])
def test_every_kind_behind_a_thought(kind: str) -> None:
    sources = {
        "regex": "yes|no",
        "choice": '["yes", "no"]',
        "lark": 'start: "yes" | "no"',
        "gbnf": 'root ::= "yes" | "no"',
    }
    grammar = text_of(OutputFormat(kind, sources[kind]), reply=THINKS, thinking_open=True)  # type: ignore[arg-type]
    assert verdict(grammar, "maybe</think>\nyes") == "whole"
    assert verdict(grammar, "maybe</think>maybe") == "no"


def test_a_forced_call_behind_a_thought() -> None:
    grammar = COMPILER.compile(
        Constraint(
            tools=(tool("look", place={"enum": ["Oslo"]}),),
            choice=ToolChoice("required"),
            reply=ReplyFormat(think_open="<think>", think_close="</think>", tool_family="hermes"),
            thinking_open=True,
            parallel=False,
        )
    )
    call = '<tool_call>\n{"name": "look", "arguments": {"place": "Oslo"}}\n</tool_call>'
    assert verdict(grammar, f"a call</think>\n\n{call}") == "whole"
    assert verdict(grammar, "a call</think>\n\nHello") == "no"
