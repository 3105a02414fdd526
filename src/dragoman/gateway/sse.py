"""Frames as server-sent events (WHATWG HTML 9.2.5). Knows no reply and no connection."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.dialects.base import Frame


def sse(frames: Iterable[Frame]) -> bytes:
    """Their bytes on the wire, one event for each frame."""
    return b"".join([_event(frame) for frame in frames])


def _event(frame: Frame) -> bytes:
    data = frame.data
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.splitlines())
    if frame.event:
        return b"event: %b\ndata: %b\n\n" % (frame.event.encode(), data)
    return b"data: %b\n\n" % data
