"""What the gateway hands to whoever carries bytes. Knows no HTTP library."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from dragoman.dialects.base import Dialect, Endpoint, Frame, WireRequest


class Whole(Struct, frozen=True, kw_only=True):
    """A complete answer."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Stream(Struct, frozen=True, kw_only=True):
    """A streamed answer with status 200. Each item of `frames` is a batch that became ready together.

    `frames` never raises (errors are frames) and `frames.aclose()` cancels the work. `ping` is the frame to send in
    silence; None: an SSE comment, or nothing on NDJSON.
    """

    content_type: str
    frames: AsyncIterator[list[Frame]]
    ping: Frame | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Download(Struct, frozen=True, kw_only=True):
    """A body sent in pieces with status 200; `size` in bytes when known. `pieces` are read to their end or closed."""

    content_type: str
    pieces: AsyncGenerator[bytes]
    size: int | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


Reply = Whole | Stream | Download


class Uploads(Struct, frozen=True):
    """Where uploaded files are written while they arrive, and how many bytes one may have."""

    folder: Path
    limit: int


class Gateway(Protocol):
    """Runs one call of one endpoint row."""

    @property
    def uploads(self) -> Uploads | None:
        """None when no files are taken now; a call with a form then gets none."""
        ...

    async def call(self, dialect: Dialect, endpoint: Endpoint, wire: WireRequest, request_id: str) -> Reply:
        """The reply. Never raises a DragomanError: errors are written in the dialect's envelope. Cancelling the call
        cancels the work."""
        ...
