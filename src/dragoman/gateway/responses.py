"""Responses: runs them with or without their client, keeps them, and plays kept streams again. Knows no wire."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from msgspec import Struct, structs

from dragoman.core.errors import DragomanError, NotSupported, Overloaded
from dragoman.core.events import Failed
from dragoman.core.operations import CountRequest
from dragoman.core.responses import ENDED, ResponseEvent, ResponseInput
from dragoman.dialects.base import (
    Dialect,
    Frame,
    ReplyContext,
    ResponseCall,
    ResponseCount,
    ResponseReplay,
    ResponseWriter,
)
from dragoman.gateway.frames import FrameStream, fold, internal_failure
from dragoman.gateway.reply import Reply, Stream, Whole
from dragoman.service.background import BackgroundJob
from dragoman.service.desk import ServiceDesk
from dragoman.service.models import ServedModel
from dragoman.service.responses import ResponseShelf
from dragoman.service.stream import EventStream
from dragoman.telemetry.receipt import Receipt, ReceiptBook

Booking = Callable[[Receipt], None]
Headers = dict[str, str]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class _Answering(Struct, frozen=True):
    """One response on its way: its call, what it was made of, where it runs, and its writer."""

    call: ResponseCall
    given: ResponseInput
    model: ServedModel
    writer: ResponseWriter


class ResponseGateway:
    """The response calls of a gateway. `book` is called once per answer, `warning` makes the headers that say why it is
    not held to its form."""

    def __init__(
        self, desk: ServiceDesk, book: Booking, log: logging.Logger, warning: Callable[[str], Headers]
    ) -> None:
        self._desk = desk
        self._warning = warning
        self._book = book
        self._log = log

    async def answer(self, dialect: Dialect, call: ResponseCall, book: ReceiptBook, headers: Headers) -> Reply:
        """Create a response. Raises what its refusal is."""
        shelf, receipt = self._shelf(), book.receipt
        receipt.stream, receipt.agent = call.stream, call.agent
        given = call.build(await shelf.recall(call.plan))
        if call.plan.truncate:
            given = structs.replace(given, request=await self._desk.fitted(given.request))
        if call.plan.background:
            return await self._background(dialect, call, given, book, headers)
        model, events = await self._desk.generate((given.request,))
        answering = self._answering(call, given, model, events, receipt)
        headers = {**headers, **self._warning(events.unenforced)}
        if call.stream:
            return self._stream(dialect, answering, events, book, headers)
        answer = await fold(events, book)
        body = answering.writer.whole(answer)
        if call.plan.store:
            await shelf.keep(call.plan, given, answering.writer.record(), model.card.id)
        return Whole(status=200, body=body, content_type=dialect.content_type, headers=headers)

    async def count(self, dialect: Dialect, call: ResponseCount, headers: Headers) -> Reply:
        """Count the prompt of a response."""
        given = call.build(await self._shelf().recall(call.plan))
        request = await self._desk.fitted(given.request) if call.plan.truncate else given.request
        body = call.write(await self._desk.count(CountRequest(request)))
        return Whole(status=200, body=body, content_type=dialect.content_type, headers=headers)

    async def replay(self, dialect: Dialect, call: ResponseReplay, book: ReceiptBook) -> Reply:
        """Play a kept stream again, or the rest of one that still runs."""
        lookup = call.lookup
        job, events, body = await self._shelf().events(lookup.id, lookup.tenant)
        if job is not None:
            frames = _tail(job, call.after)
        else:
            kept = events or call.events(body)
            frames = _played([event for event in kept if event.number > call.after])
        self._book(book.close())
        return Stream(content_type=dialect.stream_type, frames=frames, ping=dialect.ping)

    async def close(self) -> None:
        """Stop what runs in the background."""
        if self._desk.responses is not None:
            await self._desk.responses.close()

    def _shelf(self) -> ResponseShelf:
        if self._desk.responses is None:
            raise NotSupported("This server keeps no responses.")
        return self._desk.responses

    def _answering(
        self, call: ResponseCall, given: ResponseInput, model: ServedModel, events: EventStream | None, receipt: Receipt
    ) -> _Answering:
        receipt.model = model.card.id
        receipt.dropped_thoughts = events.dropped_thoughts if events is not None else 0
        context = ReplyContext(
            card=model.card,
            created=int(time.time()),
            request_id=receipt.request_id,
            in_force=events.in_force if events is not None else (),
            signer=self._desk.signer(model),
        )
        return _Answering(call, given, model, call.writer(context))

    def _stream(
        self, dialect: Dialect, answering: _Answering, events: EventStream, book: ReceiptBook, headers: Headers
    ) -> Stream:
        frames: AsyncIterator[list[Frame]] = FrameStream(events, answering.writer, book, self._book, self._log)
        if answering.call.plan.store:
            frames = KeptFrames(frames, answering, self._shelf(), self._log)
        return Stream(content_type=dialect.stream_type, frames=frames, ping=dialect.ping, headers=headers)

    async def _background(
        self, dialect: Dialect, call: ResponseCall, given: ResponseInput, book: ReceiptBook, headers: Headers
    ) -> Reply:
        """Start a response that goes on without its client. What is wrong with the request is told at once; only a full
        queue is waited for."""
        shelf = self._shelf()
        shelf.jobs.check_room()
        model, events = self._desk.model_of(given.request), None
        try:
            model, events = await self._desk.generate((given.request,))
        except Overloaded:
            self._log.debug("a background response waits for the queue")
        own = structs.replace(book.receipt)
        answering = self._answering(call, given, model, events, own)
        writer = answering.writer
        job = BackgroundJob(call.plan.id, call.plan.tenant, writer.record)
        first = writer.queued()
        job.add((frame.event, frame.data) for frame in first)
        runner = _Background(self, shelf, answering, job, own, events)
        try:
            await shelf.keep(call.plan, given, writer.record(), model.card.id)
        except BaseException:
            if events is not None:
                await events.aclose()
            raise
        body = writer.record().body
        await shelf.jobs.start(job, runner.run)
        book.receipt.outcome = "finished"
        if not call.stream:
            return Whole(status=200, body=body, content_type=dialect.content_type, headers=headers)
        self._book(book.close())
        return Stream(content_type=dialect.stream_type, frames=_tail(job, -1), ping=dialect.ping, headers=headers)

    def book_of(self, receipt: Receipt) -> ReceiptBook:
        """A book of its own for an answer that outlives its request."""
        return ReceiptBook(receipt)

    def frames_of(self, events: EventStream, writer: ResponseWriter, book: ReceiptBook) -> FrameStream:
        """The frames of an answer, booked at their end."""
        return FrameStream(events, writer, book, self._book, self._log)

    async def started(self, given: ResponseInput) -> EventStream:
        """The answer, as soon as the queue has a place for it."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return (await self._desk.generate((given.request,)))[1]
            except Overloaded:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)

    def failed(self, error: BaseException) -> DragomanError:
        """What a client is told of an error nobody expected."""
        if isinstance(error, DragomanError):
            return error
        self._log.error("unexpected error", exc_info=error)
        return internal_failure(Exception(type(error).__name__))


class _Background:
    """Runs one background response to its end, whatever that is, and stores it."""

    def __init__(
        self,
        gateway: ResponseGateway,
        shelf: ResponseShelf,
        answering: _Answering,
        job: BackgroundJob,
        receipt: Receipt,
        events: EventStream | None,
    ) -> None:
        self._gateway = gateway
        self._shelf = shelf
        self._answering = answering
        self._job = job
        self._receipt = receipt
        self._events = events

    async def run(self) -> None:
        """Until it is over, cancelled, or the server stops; then it is left as it was stored at its beginning."""
        writer, job = self._answering.writer, self._job
        try:
            await self._frames()
        except asyncio.CancelledError:
            if not job.cancelled:
                raise
            job.add((frame.event, frame.data) for frame in writer.stopped())
        except Exception as error:
            failure = Failed(0, self._gateway.failed(error))
            job.add((frame.event, frame.data) for frame in writer.frames(failure))
        await self._keep()

    async def _frames(self) -> None:
        events = self._events or await self._gateway.started(self._answering.given)
        frames = self._gateway.frames_of(events, self._answering.writer, self._gateway.book_of(self._receipt))
        try:
            async for batch in frames:
                self._job.add((frame.event, frame.data) for frame in batch)
        finally:
            await frames.aclose()

    async def _keep(self) -> None:
        answering, call = self._answering, self._answering.call
        try:
            await self._shelf.keep(
                call.plan,
                answering.given,
                answering.writer.record(),
                answering.model.card.id,
                self._job.events,
            )
        except DragomanError as error:
            self._gateway.failed(RuntimeError(error.message))


class KeptFrames:
    """The frames of a response that is stored before its client sees the last of them."""

    def __init__(self, frames: FrameStream, answering: _Answering, shelf: ResponseShelf, log: logging.Logger) -> None:
        self._frames = frames
        self._answering = answering
        self._shelf = shelf
        self._log = log
        self._events: list[ResponseEvent] = []
        self._kept = False

    def __aiter__(self) -> KeptFrames:
        return self

    async def __anext__(self) -> list[Frame]:
        frames = await self._frames.__anext__()
        self._note(frames)
        if self._frames.over and not self._kept:
            frames = await self._keep(frames)
        return frames

    async def aclose(self) -> None:
        """Cancel what still runs. A response whose client left is not kept."""
        await self._frames.aclose()

    def _note(self, frames: list[Frame]) -> None:
        start = len(self._events)
        self._events += [ResponseEvent(start + at, frame.event, frame.data) for at, frame in enumerate(frames)]

    async def _keep(self, frames: list[Frame]) -> list[Frame]:
        """Store it; where that fails, so does the response."""
        self._kept = True
        answering, writer = self._answering, self._answering.writer
        record = writer.record()
        if record.status not in ENDED:
            return frames
        try:
            await self._shelf.keep(answering.call.plan, answering.given, record, answering.model.card.id, self._events)
        except DragomanError as error:
            self._log.error("the response could not be stored: %s", error.message)
            return [*frames[:-1], *writer.frames(Failed(0, error))]
        return frames


async def _tail(job: BackgroundJob, after: int) -> AsyncGenerator[list[Frame]]:
    async for events in job.tail(after):
        yield [Frame(event.data, event.name) for event in events]


async def _played(events: list[ResponseEvent]) -> AsyncGenerator[list[Frame]]:
    if events:
        yield [Frame(event.data, event.name) for event in events]
