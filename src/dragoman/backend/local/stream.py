"""One request's chunks on the event loop: a mailbox the backend fills and a stream the consumer reads.

They are two objects so that the backend never keeps a stream alive that its consumer has dropped. Knows no engine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

from dragoman.core.errors import DragomanError
from dragoman.core.exchange import TokenChunk


class Mailbox:
    """Chunks not yet read, for one reader. All methods belong to the event loop.

    Its length is bounded by the request itself: a chunk per token up to `max_tokens`, one per prefill chunk, and the
    last one; a consumer that is slow costs no more than the whole answer.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._chunks: deque[TokenChunk] = deque()
        self._error: DragomanError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, chunk: TokenChunk) -> None:
        """Add a chunk; one with `finish` closes."""
        if self.is_closed:
            return
        self._chunks.append(chunk)
        self.is_closed = chunk.finish is not None
        self._wake()

    def fail(self, error: DragomanError) -> None:
        """Close with an error, raised after the chunks that came before it."""
        if not self.is_closed:
            self._error = error
            self.is_closed = True
            self._wake()

    def abandon(self) -> None:
        """Close and forget everything: nobody reads any more."""
        self._chunks.clear()
        self._error = None
        self.is_closed = True
        self._wake()

    async def take(self) -> TokenChunk | None:
        """The next chunk, None after the last one. Raises the error the request ended with, once."""
        while not self._chunks:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self.is_closed:
                return None
            await self._news()
        return self._chunks.popleft()

    async def _news(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class LocalTokenStream:
    """The consumer's end; see backend.base.TokenStream.

    The request is cancelled by `aclose`, by a cancellation that arrives while a chunk is awaited, and when the stream
    is dropped unfinished. A reader that only wants to wait for a limited time must therefore keep one task around
    `__anext__` and wait for that task.
    """

    def __init__(self, mailbox: Mailbox, cancel: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._mailbox = mailbox
        self._cancel = cancel
        self._loop = loop

    def __aiter__(self) -> AsyncIterator[TokenChunk]:
        return self

    async def __anext__(self) -> TokenChunk:
        try:
            chunk = await self._mailbox.take()
        except asyncio.CancelledError:
            self._cancel()
            raise
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Cancel the request if it has not ended."""
        self._cancel()

    def __del__(self) -> None:
        # The garbage collector may run on any thread, so the loop is asked to do it; a closed loop needs nothing.
        if not self._mailbox.is_closed:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel)
