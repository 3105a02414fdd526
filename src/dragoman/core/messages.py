"""Conversation vocabulary: messages made of typed parts. Knows no wire spelling and no template."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Role = Literal["system", "developer", "user", "assistant", "tool"]


class TextPart(Struct, frozen=True, tag="text"):
    """Plain text."""

    text: str


class MediaPart(Struct, frozen=True, tag="media"):
    """An image, audio clip, video or document still to be fetched or decoded.

    `source` is a URL, a data: URL or base64 data; `mime` its media type where the wire gave one.
    """

    kind: Literal["image", "audio", "video", "document"]
    source: str
    mime: str | None = None


class ReasoningPart(Struct, frozen=True, tag="reasoning"):
    """A thought of the assistant replayed by the client. `signature` is opaque to everyone but its issuer."""

    text: str
    signature: str = ""


class ToolCallPart(Struct, frozen=True, tag="tool_call"):
    """A call the assistant made. `arguments` is the JSON text exactly as the wire carried it."""

    id: str
    name: str
    arguments: str


class ToolResultPart(Struct, frozen=True, tag="tool_result"):
    """What a tool returned. The canonical form is one result per message of role `tool`."""

    call_id: str
    parts: tuple[TextPart | MediaPart, ...]
    name: str | None = None
    is_error: bool = False


Part = TextPart | MediaPart | ReasoningPart | ToolCallPart | ToolResultPart


class Message(Struct, frozen=True):
    """One turn. Parts keep the order the client gave them."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None

    @property
    def text(self) -> str:
        """All text parts joined without a separator (the documented joiner for every dialect)."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))
