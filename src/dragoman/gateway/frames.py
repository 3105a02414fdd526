"""Events to frames, or to a whole answer. Knows the writer contract and no dialect."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dragoman.core.answer import Answer
from dragoman.core.errors import DragomanError, EngineFailure
from dragoman.core.events import Event, Failed
from dragoman.dialects.base import Frame, Writer
from dragoman.output.assemble import Assembler
from dragoman.service.stream import EventStream
from dragoman.telemetry.receipt import Receipt, ReceiptBook


class FrameStream:
    """The frames of one streamed reply, in the batches in which they became ready.

    Never raises: an error becomes the dialect's error frame and ends the stream. `aclose` cancels the work at any
    time, also before the first frame. The receipt is booked exactly once.
    """

    def __init__(
        self,
        events: EventStream,
        writer: Writer,
        book: ReceiptBook,
        done: Callable[[Receipt], None],
        log: logging.Logger,
    ) -> None:
        self._events = events
        self._writer = writer
        self._book = book
        self._done = done
        self._log = log
        self._over = False
        self._failed = False

    @property
    def over(self) -> bool:
        """Whether the last frames have been given out."""
        return self._over

    def __aiter__(self) -> FrameStream:
        return self

    async def __anext__(self) -> list[Frame]:
        # Every token comes this way: another coroutine on it shows in the CPU time per token.
        while not self._over:
            try:
                batch = await self._events.__anext__()
            except Exception as error:
                frames = await self._broken_off(error)
            else:
                frames = self._write(batch)
                if self._failed:
                    await self.aclose()
            if frames:
                return frames
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel what still runs; closing twice does nothing."""
        await self._events.aclose()
        self._end()

    async def _broken_off(self, error: Exception) -> list[Frame]:
        """The last frames: those of an orderly end, or the error's."""
        if isinstance(error, StopAsyncIteration):
            frames = self._writer.end()
            self._end()
            return frames
        if not isinstance(error, DragomanError):
            self._log.error(
                "unexpected error", exc_info=error, extra={"fields": {"request_id": self._book.receipt.request_id}}
            )
            error = internal_failure(error)
        frames = self._write([Failed(0, error)])
        await self.aclose()
        return frames

    def _write(self, batch: list[Event]) -> list[Frame]:
        self._book.note(batch)
        frames: list[Frame] = []
        for event in batch:
            frames += self._writer.frames(event)
            if type(event) is Failed:
                self._failed = True
                break
        return frames

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._done(self._book.close())


async def fold(events: EventStream, book: ReceiptBook) -> Answer:
    """The whole answer. Raises the error of a failed choice; cancels the work when it is itself cancelled."""
    assembler = Assembler()
    try:
        async for batch in events:
            book.note(batch)
            for event in batch:
                assembler.add(event)
    finally:
        await events.aclose()
    return assembler.answer()


def internal_failure(error: Exception) -> EngineFailure:
    """What a client is told of a fault in this server: its kind, never its details."""
    return EngineFailure(f"Internal error ({type(error).__name__}); the server log has the details.")
