"""Content blocks -> core parts. Knows no template, fetches no media, and takes nothing from a thought's signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.messages import MediaPart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.signatures import UNSIGNED, signature_kind
from dragoman.dialects.anthropic.schema import Block, Citations, Source
from dragoman.dialects.decoding import convert

Plain = TextPart | MediaPart

ELSEWHERE = frozenset(
    {
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "container_upload",
        "fallback",
    }
)
"""Blocks about what was run at Anthropic. The model that is served here can do nothing with them."""

_SIGNED = ("thinking", "thinkingc")
_ROLES: dict[str, str] = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
    "tool_addition": "system",
    "tool_removal": "system",
}


class BlockReader:
    """Reads the blocks of one request; `ignored` collects the paths of what was left out."""

    def __init__(self) -> None:
        self.ignored: list[str] = []
        self._plain: dict[str, Callable[[Block, str], Iterator[Plain]]] = {
            "text": _text,
            "image": self._image,
            "document": self._document,
            "search_result": self._search_result,
            "tool_reference": _tool_reference,
        }
        self._turn: dict[str, Callable[[Block, str], Part]] = {
            "tool_use": _tool_use,
            "tool_result": self._tool_result,
            "thinking": _thinking,
            "redacted_thinking": _redacted_thinking,
            "tool_addition": _tool_addition,
            "tool_removal": _tool_removal,
        }

    def turn(self, content: str | list[Block], role: str, at: str) -> Iterator[Part]:
        """Parts of a turn. Raises InvalidRequest naming the wire path of what is wrong."""
        if isinstance(content, str):
            yield from self.plain(content, at)
            return
        for index, block in enumerate(content):
            where = f"{at}[{index}]"
            read = self._turn.get(block.type)
            if block.type in ELSEWHERE:
                self.ignored.append(where)
            elif read is None:
                yield from self._plain_block(block, where)
            elif role != _ROLES[block.type]:
                words = f"{where}.type: a '{block.type}' block belongs to a message of role {_ROLES[block.type]}."
                raise InvalidField(words, field=f"{where}.type")
            else:
                yield read(block, where)

    def plain(self, content: str | list[Block] | None, at: str) -> Iterator[Plain]:
        """Text and media: what system prompts, tool results and documents are made of."""
        if isinstance(content, str):
            if content:
                yield TextPart(content)
            return
        for index, block in enumerate(content or ()):
            yield from self._plain_block(block, f"{at}[{index}]")

    def _leaves(self, content: str | list[Block] | None, at: str) -> Iterator[Plain]:
        """Content of a document or search result, which cannot hold another one."""
        for index, block in enumerate(() if isinstance(content, str) else content or ()):
            if block.type not in ("text", "image"):
                where = f"{at}[{index}].type"
                raise InvalidField(f"{where}: '{block.type}' is not one of text, image.", field=where)
        return self.plain(content, at)

    def _plain_block(self, block: Block, at: str) -> Iterator[Plain]:
        read = self._plain.get(block.type)
        if read is not None:
            return read(block, at)
        if block.type == "compaction":
            words = f"{at}.type: this server compacts no conversations."
            raise UnsupportedField(words, field=f"{at}.type", remedy="Send the summary as text.")
        known = ", ".join((*self._plain, *self._turn))
        raise InvalidField(f"{at}.type: '{block.type}' is not one of {known}.", field=f"{at}.type")

    def _image(self, block: Block, at: str) -> Iterator[Plain]:
        yield _media("image", _source(block, at), f"{at}.source")

    def _document(self, block: Block, at: str) -> Iterator[Plain]:
        """Text documents as text, headed by title and context; others as media."""
        source, where = _source(block, at), f"{at}.source"
        self._note_citations(block, at)
        head = "".join(f"{line}\n" for line in (block.title, block.context) if line)
        if head:
            yield TextPart(head)
        if source.type == "text":
            yield TextPart(_needed(source.data, f"{where}.data"))
        elif source.type == "content":
            yield from self._leaves(source.content, f"{where}.content")
        else:
            yield _media("document", source, where)

    def _search_result(self, block: Block, at: str) -> Iterator[Plain]:
        self._note_citations(block, at)
        source = block.source if isinstance(block.source, str) else None
        head = "".join(f"{line}\n" for line in (block.title, source) if line)
        if head:
            yield TextPart(head)
        yield from self._leaves(_inner(block, at), f"{at}.content")

    def _tool_result(self, block: Block, at: str) -> Part:
        call_id = _needed(block.tool_use_id, f"{at}.tool_use_id")
        parts = tuple(self.plain(_inner(block, at), f"{at}.content"))
        return ToolResultPart(call_id, parts, is_error=block.is_error is True)

    def _note_citations(self, block: Block, at: str) -> None:
        if isinstance(block.citations, Citations) and block.citations.enabled:
            self.ignored.append(f"{at}.citations")


def _text(block: Block, at: str) -> Iterator[Plain]:
    yield TextPart(_needed(block.text, f"{at}.text"))


def _tool_reference(block: Block, at: str) -> Iterator[Plain]:
    yield TextPart(_needed(block.tool_name, f"{at}.tool_name"))


def _tool_use(block: Block, at: str) -> Part:
    given: Any = block.input
    if not isinstance(given, dict | None):
        raise InvalidField(f"{at}.input: an object is required.", field=f"{at}.input")
    arguments = msgspec.json.encode(given or {}).decode()
    return ToolCallPart(_needed(block.id, f"{at}.id"), _needed(block.name, f"{at}.name"), arguments)


def _thinking(block: Block, at: str) -> Part:
    return _signed(_needed(block.thinking, f"{at}.thinking"), block.signature or "")


def _redacted_thinking(block: Block, at: str) -> Part:
    return _signed("", _needed(block.data, f"{at}.data"))


def _signed(thought: str, signature: str) -> Part:
    """Only thoughts that were signed for this wire are believed on it; whether they are is not decided here."""
    return ReasoningPart(thought, signature if signature_kind(signature) in _SIGNED else UNSIGNED)


def _tool_addition(block: Block, at: str) -> Part:
    return TextPart(f"The tool {_changed(block, at)} can be used from here on.")


def _tool_removal(block: Block, at: str) -> Part:
    return TextPart(f"The tool {_changed(block, at)} must not be used from here on.")


def _changed(block: Block, at: str) -> str:
    """The name of a tool that was declared with the request."""
    if block.tool is None:
        raise MissingField(f"{at}.tool: the field is required.", field=f"{at}.tool")
    if block.tool.type == "tool_definition":
        words = f"{at}.tool.type: tools can only be declared in 'tools' here."
        raise UnsupportedField(words, field=f"{at}.tool.type")
    return _needed(block.tool.name or block.tool.tool_name, f"{at}.tool.name")


def _inner(block: Block, at: str) -> str | list[Block] | None:
    if block.content is None or isinstance(block.content, str):
        return block.content
    return convert(block.content, list[Block], f"{at}.content")


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
