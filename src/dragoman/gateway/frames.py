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

    def __aiter__(self) -> FrameStream:
        return self

    async def __anext__(self) -> list[Frame]:
        while not self._over:
            frames = await self._next_frames()
            if frames:
                return frames
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel what still runs; closing twice does nothing."""
        await self._events.aclose()
        self._end()

    async def _next_frames(self) -> list[Frame]:
        batch: list[Event]
        try:
            batch = await self._events.__anext__()
        except StopAsyncIteration:
            frames = self._writer.end()
            self._end()
            return frames
        except DragomanError as error:
            batch = [Failed(0, error)]
        except Exception as error:
            self._log.exception("unexpected error", extra={"fields": {"request_id": self._book.receipt.request_id}})
            batch = [Failed(0, internal_failure(error))]
        return await self._write(batch)

    async def _write(self, batch: list[Event]) -> list[Frame]:
        self._book.note(batch)
        frames: list[Frame] = []
        for event in batch:
            frames += self._writer.frames(event)
            if type(event) is Failed:
                await self.aclose()
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
