"""Streams that outlive their connection: kept for the client that named its conversation to come back to.

Such a stream is pumped by a task of its own, so the answer goes on when the client leaves. Its bytes are kept, the
oldest go first; some minutes after its end it is forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable

from dragoman.core.errors import DragomanError, NotFound
from dragoman.dialects.base import Frame, KeptStream
from dragoman.gateway.frames import FrameStream
from dragoman.gateway.sse import sse

MOST_BYTES = 4 * 1024 * 1024
"""Kept of one stream."""
KEEP_SECONDS = 300.0
"""After its end."""
MOST_STREAMS = 256
"""The stream that began first goes first, also while it runs."""


class _Kept:
    """One stream. `start` is the offset of the first byte that is still here."""

    def __init__(self, conversation: str, frames: FrameStream, began: float) -> None:
        self.conversation = conversation
        self.frames = frames
        self.began = began
        self.ended: float | None = None
        self.start = self.size = 0
        self.live: asyncio.Queue[list[Frame] | None] | None = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self._pieces: deque[bytes] = deque()
        self._changed = asyncio.Event()

    def add(self, frames: list[Frame]) -> None:
        """More of it."""
        data = sse(frames)
        self._pieces.append(data)
        self.size += len(data)
        while self.size - self.start > MOST_BYTES and len(self._pieces) > 1:
            self.start += len(self._pieces.popleft())
        if self.live is not None:
            self.live.put_nowait(frames)
        self._tell()

    def end(self, now: float) -> None:
        """There is no more."""
        self.ended = now
        if self.live is not None:
            self.live.put_nowait(None)
        self._tell()

    def after(self, offset: int) -> bytes:
        """All that is here from `offset` on, which must not lie before `start`."""
        return b"".join(self._pieces)[max(0, offset - self.start) :]

    async def change(self) -> None:
        """Wait for more, or for the end."""
        await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class KeptStreams:
    """All kept streams of a server. `clock` gives Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def keep(self, conversation: str, frames: FrameStream) -> AsyncIterator[list[Frame]]:
        """The frames for the client that is here now; leaving it early ends nothing. An earlier stream of the same
        conversation is cancelled."""
        await self.drop(conversation)
        while len(self._kept) >= MOST_STREAMS:
            await self.drop(next(iter(self._kept)))
        kept = self._kept[conversation] = _Kept(conversation, frames, self._clock())
        kept.task = asyncio.create_task(self._pump(kept))
        return _live(kept)

    def find(self, conversations: Iterable[str]) -> tuple[KeptStream, ...]:
        """What is kept of these conversations."""
        return tuple(_shown(self._kept[name]) for name in dict.fromkeys(conversations) if name in self._kept)

    def resume(self, conversation: str, offset: int, lost: DragomanError) -> AsyncGenerator[bytes]:
        """The bytes from `offset` on, those to come included. Raises NotFound, and `lost` when some are gone."""
        kept = self._kept.get(conversation)
        if kept is None:
            raise NotFound("There is no such stream.")
        if offset < kept.start:
            raise lost
        return _rest(kept, offset)

    async def drop(self, conversation: str) -> None:
        """Cancel and forget it."""
        kept = self._kept.pop(conversation, None)
        if kept is None or kept.task is None:
            return
        kept.task.cancel()
        await asyncio.wait((kept.task,))
        if kept.ended is None:
            # Cancelled before it took its first step, a task never gets to its own end.
            await kept.frames.aclose()
            kept.end(self._clock())

    async def close(self) -> None:
        """Cancel and forget them all."""
        for conversation in list(self._kept):
            await self.drop(conversation)

    async def _pump(self, kept: _Kept) -> None:
        try:
            async for frames in kept.frames:
                kept.add(frames)
        finally:
            await kept.frames.aclose()
            kept.end(self._clock())
            asyncio.get_running_loop().call_later(KEEP_SECONDS, self._forget, kept)

    def _forget(self, kept: _Kept) -> None:
        if self._kept.get(kept.conversation) is kept:
            del self._kept[kept.conversation]


async def _live(kept: _Kept) -> AsyncGenerator[list[Frame]]:
    queue = kept.live
    try:
        while queue is not None and (frames := await queue.get()) is not None:
            yield frames
    finally:
        kept.live = None


async def _rest(kept: _Kept, offset: int) -> AsyncGenerator[bytes]:
    at = offset
    while at >= kept.start:
        if at < kept.size:
            data = kept.after(at)
            at = kept.size
            yield data
        elif kept.ended is not None:
            return
        else:
            await kept.change()


def _shown(kept: _Kept) -> KeptStream:
    return KeptStream(
        conversation=kept.conversation,
        done=kept.ended is not None,
        bytes=kept.size,
        began=int(kept.began),
        ended=None if kept.ended is None else int(kept.ended),
    )
