"""Runs one call while watching for the client to leave. Knows no route and no gate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from starlette.types import Receive

from dragoman.dialects.base import Frame
from dragoman.gateway.reply import Download, Reply, Stream, Whole
from dragoman.http.disconnect import ClientGone, disconnected
from dragoman.http.download import send_download
from dragoman.http.responder import Responder, encode
from dragoman.http.stream import STREAM_HEADERS, send_stream

_log = logging.getLogger(__name__)


class Exchange:
    """One call and its reply on the way to one client. `silence`: seconds before a stream pings."""

    def __init__(self, responder: Responder, receive: Receive, silence: float, head: bool) -> None:
        self._responder = responder
        self._receive = receive
        self._silence = silence
        self._head = head

    async def run(self, call: Coroutine[Any, Any, Reply]) -> None:
        """Run the call and send its reply. Cancels the work and raises ClientGone when the client leaves first."""
        work = asyncio.create_task(call)
        gone = asyncio.create_task(disconnected(self._receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGone
            await self._send(work.result(), gone)
        finally:
            gone.cancel()
            await _abandon(work)

    async def _send(self, reply: Reply, gone: asyncio.Task[None]) -> None:
        if isinstance(reply, Whole):
            await self._responder.whole(reply)
            return
        if isinstance(reply, Download):
            await send_download(reply, self._responder, gone, head=self._head)
            return
        await self._responder.start(200, reply.content_type, [*STREAM_HEADERS, *encode(reply.headers)])
        if self._head:
            await self._responder.send({"type": "http.response.body", "body": b""})
            return
        await send_stream(reply, self._responder, self._silence, gone)


async def _abandon(work: asyncio.Task[Reply]) -> None:
    """End the work: cancel a running call, close the frames of a stream. Does nothing to what is over."""
    if not work.done():
        work.cancel()
        await asyncio.wait((work,))
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.error("a call failed while it was cancelled", exc_info=error)
    if work.cancelled() or work.exception() is not None:
        return
    reply = work.result()
    if isinstance(reply, Stream):
        await _close(reply.frames)
    elif isinstance(reply, Download):
        await _close(reply.pieces)


async def _close(frames: AsyncIterator[list[Frame]] | AsyncIterator[bytes]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(frames, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception:
        _log.exception("a stream could not be closed")
