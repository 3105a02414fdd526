"""POST /apply-template: a chat body to a render request. Knows no template and no tool syntax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from dragoman.core.messages import Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.operations import Rendered, RenderRequest
from dragoman.core.request import ChatInput, Thinking
from dragoman.core.tools import Tool, ToolChoice
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_or_empty
from dragoman.dialects.llamacpp.errors import NativeError, wrong_type
from dragoman.dialects.llamacpp.tokens import flag, model_name

_ROLES = frozenset(get_args(Role))
_CHOICES = {"auto": "auto", "none": "none", "required": "required"}
_NO_MEDIA = "{} input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
_MEDIA = {"image_url": "image", "input_audio": "audio", "input_video": "video"}


def read_template(wire: WireRequest) -> SmallCall:
    """POST /apply-template."""
    body = decode_or_empty(wire.body)
    return SmallCall(request=RenderRequest(chat_input(body), model=model_name(body)), write=_write)


def chat_input(body: Mapping[str, Any]) -> ChatInput:
    """The conversation of a chat completion body, with what shapes its prompt. A trailing assistant message is
    continued, whatever `add_generation_prompt` says."""
    messages = _messages(body)
    continued = bool(messages) and messages[-1].role == "assistant"
    tools = _tools(body.get("tools"))
    _check_continue(body, continued=continued)
    kwargs = body.get("chat_template_kwargs")
    return ChatInput(
        messages=messages,
        tools=tools,
        tool_choice=_tool_choice(body.get("tool_choice")),
        parallel_tool_calls=flag(body, "parallel_tool_calls", default=True),
        thinking=_thinking(body.get("reasoning_effort")),
        add_generation_prompt=not continued and flag(body, "add_generation_prompt", default=True),
        continue_final=continued,
        template_kwargs=cast("dict[str, Any]", kwargs) if isinstance(kwargs, dict) else {},
    )


def _write(result: Rendered) -> bytes:
    return msgspec.json.encode({"prompt": result.text})


def _check_continue(body: Mapping[str, Any], *, continued: bool) -> None:
    value = body.get("continue_final_message")
    if value is not None and not isinstance(value, bool) and value not in ("content", "reasoning_content"):
        raise NativeError('Invalid continue_final_message: expected a boolean, "content" or "reasoning_content"')
    if value and flag(body, "add_generation_prompt", default=True):
        raise NativeError("Cannot set both add_generation_prompt and continue_final_message to true.")


def _messages(body: Mapping[str, Any]) -> tuple[Message, ...]:
    if "messages" not in body:
        raise NativeError("'messages' is required", field="messages")
    items = body["messages"]
    if not isinstance(items, list):
        raise NativeError("Expected 'messages' to be an array", field="messages")
    messages = tuple(_message(item) for item in cast("list[object]", items))
    if [message.role for message in messages[-2:]] == ["assistant", "assistant"]:
        raise NativeError("Cannot have 2 or more assistant messages at the end of the list.", field="messages")
    return messages


def _message(item: object) -> Message:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    if fields.get("role") != "assistant" and "content" not in fields:
        raise NativeError("All non-assistant messages must contain 'content'", field="messages")
    texts = _texts(fields.get("content"))
    role = _role(fields)
    name = fields.get("name")
    named = name if isinstance(name, str) else None
    if role == "tool":
        call_id = fields.get("tool_call_id")
        return Message(role, (ToolResultPart(call_id if isinstance(call_id, str) else "", texts, named),))
    parts: tuple[Part, ...] = texts
    thought = fields.get("reasoning_content")
    if isinstance(thought, str) and thought:
        parts = (ReasoningPart(thought), *parts)
    return Message(role, (*parts, *_calls(fields.get("tool_calls"))), named)


def _role(fields: dict[str, Any]) -> Role:
    if "role" not in fields:
        raise _unparsed("messages", f"Missing 'role' in message: {_dump(fields)}")
    role = fields["role"]
    if not isinstance(role, str):
        raise _unparsed("messages", wrong_type("string", role))
    if role not in _ROLES:
        raise NativeError(f"Unknown message role: {role}", field="messages")
    return cast("Role", role)


def _texts(content: object) -> tuple[TextPart, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise NativeError("Expected 'content' to be a string or an array", field="messages")
    return tuple(TextPart(_part_text(part)) for part in cast("list[object]", content))


def _part_text(part: object) -> str:
    fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    kind = fields.get("type")
    if isinstance(kind, str) and kind in _MEDIA:
        raise NativeError(_NO_MEDIA.format(_MEDIA[kind]), status=500, field="messages")
    text = fields.get("text")
    if kind != "text" or not isinstance(text, str):
        raise NativeError("unsupported content[].type", field="messages")
    return text


def _calls(value: object) -> tuple[ToolCallPart, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _unparsed("messages", f"Missing tool call type: {_dump(value)}")
    return tuple(_call(call) for call in cast("list[object]", value))


def _call(call: object) -> ToolCallPart:
    shown = _dump(call)
    fields = cast("dict[str, Any]", call) if isinstance(call, dict) else {}
    function = fields.get("function")
    if not isinstance(function, dict):
        raise _unparsed("messages", f"Missing tool call function: {shown}")
    inner = cast("dict[str, Any]", function)
    name, arguments, call_id = inner.get("name"), inner.get("arguments"), fields.get("id")
    if not isinstance(name, str):
        raise _unparsed("messages", f"Missing tool call name: {shown}")
    text = arguments if isinstance(arguments, str) else _dump({} if arguments is None else arguments)
    return ToolCallPart(call_id if isinstance(call_id, str) else "", name, text)


def _tools(value: object) -> tuple[Tool, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        problem = f"Expected 'tools' to be an array, got {_dump(value)}; tools = {_indented(value)}"
        raise _unparsed("tools", problem)
    items = cast("list[object]", value)
    return tuple(_tool(item, items) for item in items)


def _tool(item: object, items: list[object]) -> Tool:
    shown = f"{_dump(item)}; tools = {_indented(items)}"
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    function = fields.get("function")
    if "type" not in fields:
        raise _unparsed("tools", f"Missing tool type: {shown}")
    if fields["type"] != "function" or not isinstance(function, dict):
        raise _unparsed("tools", f"Unsupported tool type: {shown}")
    inner = cast("dict[str, Any]", function)
    name, description, parameters = inner.get("name"), inner.get("description"), inner.get("parameters")
    if not isinstance(name, str):
        raise _unparsed("tools", f"Missing tool name: {shown}")
    return Tool(
        name=name,
        description=description if isinstance(description, str) else None,
        parameters=cast("dict[str, Any]", parameters) if isinstance(parameters, dict) else None,
        strict=flag(inner, "strict", default=False),
    )


def _tool_choice(value: object) -> ToolChoice:
    if not isinstance(value, str):
        return ToolChoice()
    if value not in _CHOICES:
        raise NativeError(f"Invalid tool_choice: {value}", field="tool_choice")
    return ToolChoice(cast("Any", value))


def _thinking(effort: object) -> Thinking:
    if not isinstance(effort, str):
        return Thinking()
    return Thinking(mode="off") if effort == "none" else Thinking(effort=effort)


def _unparsed(what: str, problem: str) -> NativeError:
    return NativeError(f"Failed to parse {what}: {problem}", status=500, field=what)


def _dump(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
