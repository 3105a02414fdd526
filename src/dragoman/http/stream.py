"""Writes streams: SSE and NDJSON, with pings by the wall clock. Knows frames, not what is in them.

A frame costs one encode and one send, no task and no timer: one task pumps frames, and the request's own task waits
for it, for the client to leave and for silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from starlette.types import Send

from dragoman.dialects.base import Frame
from dragoman.gateway.reply import Stream
from dragoman.gateway.sse import sse
from dragoman.http.disconnect import ClientGone
from dragoman.http.responder import Responder

__all__ = ["SSE", "STREAM_HEADERS", "StreamWriter", "ndjson", "send_stream", "sse"]

SSE = "text/event-stream"
# Frames that are ready and a socket that is empty never suspend the pump; after this many sends others get a turn,
# and a client that left is noticed.
BREATH = 16
SSE_COMMENT = b": ping\n\n"
STREAM_HEADERS = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


def ndjson(frames: Iterable[Frame]) -> bytes:
    """Frames as newline-delimited JSON."""
    return b"".join([frame.data + b"\n" for frame in frames])


class StreamWriter:
    """Writes one stream. `silence` is the seconds after which `ping` is due; a stream without pings has none."""

    def __init__(self, stream: Stream, send: Send, silence: float) -> None:
        is_sse = stream.content_type.partition(";")[0].strip() == SSE
        self._encode: Callable[[Iterable[Frame]], bytes] = sse if is_sse else ndjson
        self._ping = self._encode([stream.ping]) if stream.ping else SSE_COMMENT if is_sse else b""
        self._frames = stream.frames
        self._send = send
        self._silence = silence if self._ping else 0.0
        self._clock = asyncio.get_running_loop().time
        self._spoke = self._clock()
        self._sending = False

    async def pump(self) -> None:
        """Write frames until there are no more. Waits while the client is slow to read."""
        send, encode, clock, sent = self._send, self._encode, self._clock, 0
        async for batch in self._frames:
            if batch:
                self._sending = True
                await send({"type": "http.response.body", "body": encode(batch), "more_body": True})
                self._sending = False
                self._spoke = clock()
                sent += 1
                if sent % BREATH == 0:
                    await asyncio.sleep(0)

    def until_ping(self) -> float | None:
        """Seconds until the next ping may be due; None: never."""
        return max(0.0, self._spoke + self._silence - self._clock()) if self._silence else None

    async def ping_if_silent(self) -> None:
        """Write a ping if one is due. A client that does not read what it has been sent gets none on top."""
        if self._clock() < self._spoke + self._silence:
            return
        self._spoke = self._clock()
        if not self._sending:
            await self._send({"type": "http.response.body", "body": self._ping, "more_body": True})


async def send_stream(stream: Stream, responder: Responder, silence: float, gone: asyncio.Task[None]) -> None:
    """Send headers at once, then frames and pings until the end.

    Raises ClientGone as soon as `gone` is done. The caller closes `stream.frames` in any case.
    """
    writer = StreamWriter(stream, responder.send, silence)
    pump = asyncio.create_task(writer.pump())
    try:
        while True:
            await asyncio.wait((pump, gone), timeout=writer.until_ping(), return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                break
            if gone.done():
                raise ClientGone
            await writer.ping_if_silent()
        pump.result()
    finally:
        if not pump.done():
            pump.cancel()
            await asyncio.wait((pump,))
    await responder.send({"type": "http.response.body", "body": b""})
