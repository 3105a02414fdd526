"""The events of a message stream, as the API document shows them. The writer makes the frequent ones byte by byte."""

from __future__ import annotations

import msgspec

from dragoman.dialects.anthropic.errors import ErrorEnvelope
from dragoman.dialects.anthropic.write import MessageDelta, MessageObject, Text, ThinkingBlock, ToolUse


class MessageStart(msgspec.Struct, frozen=True, tag_field="type", tag="message_start"):
    """The message as far as it is known before its first block."""

    message: MessageObject


class BlockStart(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_start"):
    """A block opens, empty."""

    index: int
    content_block: Text | ThinkingBlock | ToolUse


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    """More of a thought."""

    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, tag_field="type", tag="signature_delta"):
    """The signature of a thought, right before its block ends."""

    signature: str


class InputDelta(msgspec.Struct, frozen=True, tag_field="type", tag="input_json_delta"):
    """More of the arguments' JSON text."""

    partial_json: str


class BlockDelta(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_delta"):
    """More of the open block."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockStop(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_stop"):
    """The block is complete."""

    index: int


class MessageStop(msgspec.Struct, frozen=True, tag_field="type", tag="message_stop"):
    """The end of the stream."""


class Ping(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    """A sign of life."""


StreamEvent = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping | ErrorEnvelope
