"""Messages and tools of a /tokenize body to core ones. Renders nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, get_args

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.messages import Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.tools import Tool
from dragoman.dialects.vllm.schema import TurnBody

_ROLES = frozenset(get_args(Role))
_TEXTS = ("text", "input_text", "output_text")


def read_turns(bodies: Iterable[TurnBody]) -> tuple[Message, ...]:
    """Raises InvalidField."""
    return tuple(_message(f"messages[{at}]", body) for at, body in enumerate(bodies))


def read_tools(values: Iterable[dict[str, Any]]) -> tuple[Tool, ...]:
    """The functions offered. Raises InvalidField."""
    return tuple(_tool(f"tools[{at}]", value) for at, value in enumerate(values))


def _message(at: str, body: TurnBody) -> Message:
    if body.role not in _ROLES:
        raise InvalidField(f"The role '{body.role}' is unknown.", field=f"{at}.role")
    role = cast("Role", body.role)
    texts = _texts(f"{at}.content", body.content)
    if role == "tool":
        return Message(role, (ToolResultPart(body.tool_call_id or "", texts, body.name),))
    thought: tuple[Part, ...] = (ReasoningPart(body.reasoning_content),) if body.reasoning_content else ()
    calls = tuple(_call(f"{at}.tool_calls[{n}]", value) for n, value in enumerate(body.tool_calls or ()))
    return Message(role, (*thought, *texts, *calls), body.name)


def _texts(at: str, content: str | list[dict[str, Any]] | None) -> tuple[TextPart, ...]:
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    found: list[TextPart] = []
    for number, part in enumerate(content or ()):
        text = part.get("text")
        if part.get("type") not in _TEXTS or not isinstance(text, str):
            raise InvalidField("Only parts of text can be tokenised.", field=f"{at}[{number}]")
        found.append(TextPart(text))
    return tuple(found)


def _call(at: str, value: dict[str, Any]) -> ToolCallPart:
    function = _function(at, value)
    arguments: object = function.get("arguments")
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    return ToolCallPart(str(value.get("id") or ""), function["name"], text)


def _tool(at: str, value: dict[str, Any]) -> Tool:
    function = _function(at, value)
    description, parameters = function.get("description"), function.get("parameters")
    return Tool(
        function["name"],
        description if isinstance(description, str) else None,
        cast("dict[str, Any]", parameters) if isinstance(parameters, dict) else None,
        field=f"{at}.function.parameters",
    )


def _function(at: str, value: dict[str, Any]) -> dict[str, Any]:
    function = value.get("function")
    if not isinstance(function, dict) or not isinstance(cast("dict[str, Any]", function).get("name"), str):
        raise InvalidField("A function needs a name.", field=f"{at}.function.name")
    return cast("dict[str, Any]", function)
