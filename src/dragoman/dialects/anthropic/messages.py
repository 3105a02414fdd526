"""Messages turns and system blocks -> core messages. Knows no template, fetches no media and leaves nothing out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

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
from dragoman.dialects.anthropic.schema import Block, MessageParam, Source
from dragoman.dialects.anthropic.signature import carried

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}

Plain = TextPart | MediaPart


def read_system(system: str | list[Block] | None) -> tuple[Message, ...]:
    """The leading system message, one part a block; none when there is no system prompt."""
    parts = tuple(_plain(system, "system")) if system else ()
    return (Message("system", parts),) if parts else ()


def read_turns(messages: list[MessageParam]) -> tuple[Message, ...]:
    """All turns in order. Raises InvalidRequest naming the wire path of what is wrong."""
    if not messages:
        raise InvalidField("messages: at least one message is required.", field="messages")
    return tuple(turn for index, message in enumerate(messages) for turn in _turn(message, f"messages[{index}]"))


def _turn(message: MessageParam, at: str) -> Iterator[Message]:
    """The turn; tool results become messages of role tool, in their place among the other blocks."""
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidField(
            f"{at}.role: '{message.role}' is not one of {', '.join(_ROLES)}.",
            field=f"{at}.role",
            remedy="The top-level 'system' field takes the system prompt.",
        )
    pending: list[Part] = []
    for part in _parts(message, at):
        if isinstance(part, ToolResultPart):
            if pending:
                yield Message(role, tuple(pending))
                pending = []
            yield Message("tool", (part,))
        else:
            pending.append(part)
    if pending or not message.content:
        yield Message(role, tuple(pending))


def _parts(message: MessageParam, at: str) -> Iterator[Part]:
    if isinstance(message.content, str):
        yield from _plain(message.content, f"{at}.content")
        return
    for index, block in enumerate(message.content):
        where = f"{at}.content[{index}]"
        reader = _TURN_BLOCKS.get(block.type)
        if reader is not None:
            yield reader(block, where)
        else:
            yield from _plain_block(block, where)


def _plain(content: str | list[Block] | None, at: str) -> Iterator[Plain]:
    """Text and media: what system prompts, tool results and documents are made of."""
    if isinstance(content, str):
        if content:
            yield TextPart(content)
        return
    for index, block in enumerate(content or ()):
        yield from _plain_block(block, f"{at}[{index}]")


def _leaves(content: str | list[Block] | None, at: str) -> Iterator[Plain]:
    """Content of a document or search result, which cannot hold another one."""
    for index, block in enumerate(() if isinstance(content, str) else content or ()):
        if block.type not in ("text", "image"):
            where = f"{at}[{index}].type"
            raise InvalidField(f"{where}: '{block.type}' is not one of text, image.", field=where)
    return _plain(content, at)


def _plain_block(block: Block, at: str) -> Iterator[Plain]:
    reader = _PLAIN_BLOCKS.get(block.type)
    if reader is None:
        known = ", ".join((*_PLAIN_BLOCKS, *_TURN_BLOCKS))
        raise InvalidField(f"{at}.type: '{block.type}' is not one of {known}.", field=f"{at}.type")
    return reader(block, at)


def _text(block: Block, at: str) -> Iterator[Plain]:
    yield TextPart(_needed(block.text, f"{at}.text"))


def _image(block: Block, at: str) -> Iterator[Plain]:
    yield _media("image", _source(block, at), f"{at}.source")


def _document(block: Block, at: str) -> Iterator[Plain]:
    """Text documents as text, headed by title and context; others as media."""
    source, where = _source(block, at), f"{at}.source"
    head = "".join(f"{line}\n" for line in (block.title, block.context) if line)
    if head:
        yield TextPart(head)
    if source.type == "text":
        yield TextPart(_needed(source.data, f"{where}.data"))
    elif source.type == "content":
        yield from _leaves(source.content, f"{where}.content")
    else:
        yield _media("document", source, where)


def _search_result(block: Block, at: str) -> Iterator[Plain]:
    source = block.source if isinstance(block.source, str) else None
    head = "".join(f"{line}\n" for line in (block.title, source) if line)
    if head:
        yield TextPart(head)
    yield from _leaves(block.content, f"{at}.content")


def _tool_reference(block: Block, at: str) -> Iterator[Plain]:
    yield TextPart(_needed(block.tool_name, f"{at}.tool_name"))


def _tool_use(block: Block, at: str) -> Part:
    arguments = msgspec.json.encode(block.input or {}).decode()
    return ToolCallPart(_needed(block.id, f"{at}.id"), _needed(block.name, f"{at}.name"), arguments)


def _tool_result(block: Block, at: str) -> Part:
    call_id = _needed(block.tool_use_id, f"{at}.tool_use_id")
    return ToolResultPart(call_id, tuple(_plain(block.content, f"{at}.content")), is_error=block.is_error is True)


def _thinking(block: Block, at: str) -> Part:
    signature = block.signature or ""
    return ReasoningPart(_needed(block.thinking, f"{at}.thinking") or carried(signature), signature)


def _redacted_thinking(block: Block, at: str) -> Part:
    return ReasoningPart("", _needed(block.data, f"{at}.data"))


def _source(block: Block, at: str) -> Source:
    if not isinstance(block.source, Source):
        raise MissingField(f"{at}.source: an object is required.", field=f"{at}.source")
    return block.source


def _media(kind: Literal["image", "document"], source: Source, at: str) -> MediaPart:
    if source.type == "base64":
        data = _needed(source.data, f"{at}.data")
        return MediaPart(kind, data, _needed(source.media_type, f"{at}.media_type"))
    if source.type == "url":
        return MediaPart(kind, _needed(source.url, f"{at}.url"), source.media_type)
    if source.type == "file":
        raise UnsupportedField(
            f"{at}.type: uploaded files are not supported here.", field=f"{at}.type", remedy="Send the data itself."
        )
    raise InvalidField(f"{at}.type: '{source.type}' is not a known source.", field=f"{at}.type")


def _needed(value: str | None, at: str) -> str:
    if value is None:
        raise MissingField(f"{at}: the field is required.", field=at)
    return value


_PLAIN_BLOCKS: dict[str, Callable[[Block, str], Iterator[Plain]]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
}
_TURN_BLOCKS: dict[str, Callable[[Block, str], Part]] = {
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _redacted_thinking,
}
