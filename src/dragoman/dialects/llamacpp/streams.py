"""/v1/stream and /v1/streams/lookup: coming back to a stream that was named by X-Conversation-Id."""

from __future__ import annotations

from typing import cast

import msgspec

from dragoman.dialects.base import DropCall, KeptCall, KeptStream, ResumeCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_or_empty
from dragoman.dialects.llamacpp.errors import NativeError

MOST_CONVERSATIONS = 1024


def read_resume(wire: WireRequest) -> ResumeCall:
    """GET /v1/stream?conv_id=…&from=…: the bytes from there on."""
    offset = wire.query.get("from", "0")
    return ResumeCall(
        conversation=_conversation(wire),
        offset=int(offset) if offset.isascii() and offset.isdigit() else 0,
        lost=NativeError("Stream offset lost, please restart"),
    )


def read_drop(wire: WireRequest) -> DropCall:
    """DELETE /v1/stream?conv_id=…: cancel it."""
    return DropCall(conversation=_conversation(wire))


def read_lookup(wire: WireRequest) -> KeptCall:
    """POST /v1/streams/lookup: what is kept of these conversations."""
    value = decode_or_empty(wire.body).get("conversation_ids")
    items = cast("list[object]", value) if isinstance(value, list) else []
    names = tuple(item for item in items if isinstance(item, str))[:MOST_CONVERSATIONS]
    return KeptCall(conversations=names, write=_write_kept)


def _conversation(wire: WireRequest) -> str:
    name = wire.query.get("conv_id", "")
    if not name:
        raise NativeError("Missing conversation id in path")
    return name


def _write_kept(streams: tuple[KeptStream, ...]) -> bytes:
    return msgspec.json.encode(
        [
            {
                "conversation_id": stream.conversation,
                "is_done": stream.done,
                "total_bytes": stream.bytes,
                "started_at": stream.began,
                "completed_at": stream.ended or 0,
            }
            for stream in streams
        ]
    )
