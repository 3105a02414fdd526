"""Ollama's messages and tools to core messages. Calls without ids get some, and results are matched to them by tool
name and order, since this wire need not carry ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.messages import MediaPart, Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.tools import Tool
from dragoman.dialects.ollama.schema import CallBody, Function, MessageBody, ToolBody

_ROLES = frozenset(get_args(Role))


def read_messages(bodies: Iterable[MessageBody]) -> tuple[Message, ...]:
    """Raises InvalidField for an unknown role."""
    calls = _OpenCalls()
    return tuple(_message(position, body, calls) for position, body in enumerate(bodies))


def read_tools(bodies: Iterable[ToolBody] | None) -> tuple[Tool, ...]:
    """The functions offered."""
    return tuple(_tool(body.function, f"tools[{index}].function") for index, body in enumerate(bodies or ()))


def images_of(images: Iterable[str] | None) -> tuple[MediaPart, ...]:
    """Base64 images, in order."""
    return tuple(MediaPart("image", image) for image in images or ())


def _tool(function: Function, at: str) -> Tool:
    return Tool(function.name, function.description, function.parameters, field=f"{at}.parameters")


class _OpenCalls:
    """Calls that have no result yet."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[tuple[str, str]] = []

    def made(self, call: CallBody) -> str:
        """The id of a call, made up when the wire has none."""
        call_id = call.id or f"call_{self._made}"
        self._made += 1
        self._open.append((call_id, call.function.name))
        return call_id

    def answered(self, body: MessageBody) -> tuple[str, str | None]:
        """Id and name of the call a result belongs to: by id, else by name, else the oldest open one."""
        named = [call for call in self._open if body.tool_call_id == call[0]]
        named = named or [call for call in self._open if body.tool_name == call[1]]
        candidates = named if named or body.tool_call_id or body.tool_name else self._open
        if not candidates:
            return body.tool_call_id or "", body.tool_name
        call_id, name = candidates[0]
        self._open.remove((call_id, name))
        return call_id, body.tool_name or name


def _message(position: int, body: MessageBody, calls: _OpenCalls) -> Message:
    if body.role not in _ROLES:
        known = ", ".join(sorted(_ROLES))
        raise InvalidField(f"invalid role '{body.role}', expected one of {known}", field=f"messages[{position}].role")
    role = cast("Role", body.role)
    texts = (TextPart(body.content),) if body.content else ()
    images = images_of(body.images)
    if role == "tool":
        call_id, name = calls.answered(body)
        return Message(role, (ToolResultPart(call_id, (*images, *texts), name),))
    thought: tuple[Part, ...] = (ReasoningPart(body.thinking),) if body.thinking else ()
    made = tuple(_call(call, calls) for call in body.tool_calls or ())
    return Message(role, (*thought, *images, *texts, *made))


def _call(call: CallBody, calls: _OpenCalls) -> ToolCallPart:
    arguments = msgspec.json.encode(call.function.arguments or {}).decode()
    return ToolCallPart(calls.made(call), call.function.name, arguments)
