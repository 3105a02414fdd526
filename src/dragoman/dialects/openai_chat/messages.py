"""Chat messages -> core messages. Knows no template and fetches no media."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.messages import (
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from dragoman.dialects.openai_chat.schema import CalledFunction, ChatMessage, ContentPart, ToolCall, Url

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_messages(messages: list[ChatMessage]) -> tuple[Message, ...]:
    """All messages in order. Raises InvalidRequest naming the wire path of what is wrong."""
    if not messages:
        raise InvalidField("Invalid 'messages': at least one message is required.", field="messages")
    read: list[Message] = []
    for index, message in enumerate(messages):
        read.append(_message(message, f"messages[{index}]", read))
    return tuple(read)


def _message(message: ChatMessage, at: str, before: list[Message]) -> Message:
    role = _ROLES.get(message.role)
    if role is None:
        allowed = ", ".join(_ROLES)
        raise InvalidField(f"Invalid '{at}.role': '{message.role}' is not one of {allowed}.", field=f"{at}.role")
    if role == "assistant":
        return Message(role, tuple(_assistant_parts(message, at, len(before))), message.name)
    if role == "tool":
        return Message(role, (_result(message, at, before),))
    if message.content is None:
        raise MissingField(f"The field '{at}.content' is required.", field=f"{at}.content")
    return Message(role, tuple(_content(message, at)), message.name)


def _assistant_parts(message: ChatMessage, at: str, number: int) -> Iterator[Part]:
    if message.audio is not None:
        raise UnsupportedField(f"The field '{at}.audio' is not supported by this server.", field=f"{at}.audio")
    thought = message.reasoning if message.reasoning_content is None else message.reasoning_content
    if thought:
        yield ReasoningPart(thought)
    yield from _content(message, at)
    if message.refusal:
        yield TextPart(message.refusal)
    for index, call in enumerate(message.tool_calls or ()):
        yield _call(call, f"{at}.tool_calls[{index}]")
    if message.function_call is not None:
        # The legacy form has no ids; the function message that follows is matched to this one.
        yield ToolCallPart(f"call_{number}", message.function_call.name, _arguments(message.function_call))


def _call(call: ToolCall, at: str) -> ToolCallPart:
    if call.custom is not None:
        raise UnsupportedField(f"The field '{at}.custom' is not supported by this server.", field=f"{at}.custom")
    if call.function is None:
        raise MissingField(f"The field '{at}.function' is required.", field=f"{at}.function")
    return ToolCallPart(call.id or "", call.function.name, _arguments(call.function))


def _arguments(function: CalledFunction) -> str:
    if function.arguments is None:
        return "{}"
    if isinstance(function.arguments, str):
        return function.arguments
    return msgspec.json.encode(function.arguments).decode()


def _result(message: ChatMessage, at: str, before: list[Message]) -> ToolResultPart:
    call_id = message.tool_call_id
    if call_id is None and message.role == "function":
        call_id = _last_call_id(before)
    if call_id is None:
        raise MissingField(f"The field '{at}.tool_call_id' is required.", field=f"{at}.tool_call_id")
    return ToolResultPart(call_id, tuple(_content(message, at)), message.name)


def _last_call_id(before: list[Message]) -> str:
    calls = (part.id for turn in reversed(before) for part in reversed(turn.parts) if isinstance(part, ToolCallPart))
    return next(calls, "")


def _content(message: ChatMessage, at: str) -> Iterator[TextPart | MediaPart]:
    """Text and media of a message; null and "" are no part at all, so both render alike."""
    content = message.content
    if isinstance(content, str):
        if content:
            yield TextPart(content)
        return
    for index, part in enumerate(content or ()):
        yield _part(part, f"{at}.content[{index}]")


def _part(part: ContentPart, at: str) -> TextPart | MediaPart:
    reader = _PARTS.get(part.type)
    if reader is None:
        known = ", ".join(_PARTS)
        raise InvalidField(f"Invalid '{at}.type': '{part.type}' is not one of {known}.", field=f"{at}.type")
    return reader(part, at)


def _text(part: ContentPart, at: str) -> TextPart:
    return TextPart(_needed(part.text, f"{at}.text"))


def _refusal(part: ContentPart, at: str) -> TextPart:
    return TextPart(_needed(part.refusal, f"{at}.refusal"))


def _image(part: ContentPart, at: str) -> MediaPart:
    return MediaPart("image", _url(part.image_url, f"{at}.image_url"))


def _audio_url(part: ContentPart, at: str) -> MediaPart:
    return MediaPart("audio", _url(part.audio_url, f"{at}.audio_url"))


def _video(part: ContentPart, at: str) -> MediaPart:
    return MediaPart("video", _url(part.video_url, f"{at}.video_url"))


def _audio(part: ContentPart, at: str) -> MediaPart:
    if part.input_audio is None:
        raise MissingField(f"The field '{at}.input_audio' is required.", field=f"{at}.input_audio")
    mime = f"audio/{part.input_audio.format}" if part.input_audio.format else None
    return MediaPart("audio", part.input_audio.data, mime)


def _file(part: ContentPart, at: str) -> MediaPart:
    if part.file is not None and part.file.file_id is not None:
        raise UnsupportedField(
            f"The field '{at}.file.file_id' is not supported by this server.",
            field=f"{at}.file.file_id",
            remedy="Send the file itself in file_data.",
        )
    return MediaPart("document", _needed(part.file.file_data if part.file else None, f"{at}.file.file_data"))


def _url(value: str | Url | None, at: str) -> str:
    return _needed(value.url if isinstance(value, Url) else value, at)


def _needed(value: str | None, at: str) -> str:
    if value is None:
        raise MissingField(f"The field '{at}' is required.", field=at)
    return value


_PARTS: dict[str, Callable[[ContentPart, str], TextPart | MediaPart]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "image": _image,
    "input_image": _image,
    "input_audio": _audio,
    "audio_url": _audio_url,
    "video_url": _video,
    "file": _file,
}
