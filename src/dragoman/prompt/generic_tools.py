"""Tool use for templates that have none: our own words in the system turn, calls and results as marked text.

The marks are those of the Hermes format, which many models have seen: JSON between `<tool_call>` tags, results between
`<tool_response>` tags. Knows no template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.core.messages import ToolCallPart
from dragoman.core.tools import ToolChoice
from dragoman.prompt.turns import Turn, is_system, joined

_INTRODUCTION = (
    "You can call functions. Each line between <tools> and </tools> describes one of them as JSON, with a JSON Schema "
    "of its arguments.\n<tools>\n"
)
_FORM = (
    "\n</tools>\n\nTo call a function, write a JSON object with its name and its arguments between tags, like this:\n"
    '<tool_call>\n{"name": "function_name", "arguments": {"argument_name": "value"}}\n</tool_call>\n'
    "What the function returns comes back to you between <tool_response> and </tool_response>. "
    "Call a function only where it helps to answer; otherwise answer in plain words."
)
_ONE_CALL = " Make at most one call in a reply."
_MUST_CALL = " In this reply you must call a function."

Decode = Callable[[ToolCallPart], object]


def instructions(tools: Sequence[Mapping[str, Any]], choice: ToolChoice, *, parallel: bool) -> str:
    """The words that describe the tools and the form of a call."""
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    text = _INTRODUCTION + lines + _FORM + ("" if parallel else _ONE_CALL)
    if choice.mode == "named":
        return f"{text} In this reply you must call {' or '.join(choice.names)}."
    return text + (_MUST_CALL if choice.mode == "required" else "")


def with_instructions(turns: Sequence[Turn], text: str) -> list[Turn]:
    """The turns with the text at the end of the leading system turn, which is made where there is none."""
    addition = Turn(role="system", texts=(text,))
    if turns and is_system(turns[0]):
        return [joined([turns[0], addition]), *turns[1:]]
    return [addition, *turns]


def as_text(turns: Sequence[Turn], decode: Decode) -> list[Turn]:
    """The turns with calls written into the assistant's text, and results as user turns. Results that follow each
    other share one turn."""
    result: list[Turn] = []
    answering = False
    for turn in turns:
        if turn.role != "tool":
            result.append(_with_calls(turn, decode) if turn.calls else turn)
            answering = False
            continue
        block = f"<tool_response>\n{turn.text}\n</tool_response>"
        if answering:
            result[-1] = msgspec.structs.replace(result[-1], texts=(f"{result[-1].text}\n{block}",))
        else:
            result.append(Turn(role="user", texts=(block,)))
        answering = True
    return result


def _with_calls(turn: Turn, decode: Decode) -> Turn:
    blocks = [_call_block(call, decode) for call in turn.calls]
    text = "\n".join([turn.text, *blocks] if turn.text else blocks)
    return msgspec.structs.replace(turn, texts=(text,), calls=())


def _call_block(call: ToolCallPart, decode: Decode) -> str:
    body = json.dumps({"name": call.name, "arguments": decode(call)}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"
