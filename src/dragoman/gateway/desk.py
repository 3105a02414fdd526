"""The gateway over the service desk: reads a call with its dialect, runs it, writes the reply, books the receipt."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from dragoman.core.errors import DragomanError, UnsupportedField
from dragoman.core.vectors import Embedded, Reranked
from dragoman.dialects.base import (
    ByteStream,
    Dialect,
    DropCall,
    Endpoint,
    EndThoughtCall,
    GenerateCall,
    KeptCall,
    ReplyContext,
    ResponseCall,
    ResponseCount,
    ResponseReplay,
    ResumeCall,
    SmallCall,
    StaticCall,
    WireRequest,
)
from dragoman.gateway.frames import FrameStream, fold, internal_failure
from dragoman.gateway.kept import KeptStreams
from dragoman.gateway.reply import Download, Reply, Stream, Uploads, Whole
from dragoman.gateway.responses import ResponseGateway
from dragoman.service.desk import ServiceDesk
from dragoman.service.stream import EventStream
from dragoman.telemetry.receipt import Receipt, ReceiptBook

IGNORED_HEADER = "x-dragoman-ignored"
WARNING_HEADER = "warning"
CONVERSATION_HEADER = "x-conversation-id"
"""With it, a stream goes on when its client leaves, which may come back for the rest (llama-server's word)."""
_SSE = "text/event-stream"

Booking = Callable[[Receipt], None]


class GatewayOptions(Struct, frozen=True, kw_only=True):
    """`strict_fields` refuses unknown request fields instead of listing them in a header; `log_prompts` puts prompts
    and answers on the receipt."""

    strict_fields: bool = False
    log_prompts: bool = False


class ServiceGateway:
    """Implements `gateway.reply.Gateway`. `book` is called once per request, when it is over."""

    def __init__(
        self,
        desk: ServiceDesk,
        options: GatewayOptions,
        book: Booking,
        log: logging.Logger,
        uploads: Uploads | None = None,
    ) -> None:
        self._desk = desk
        self._options = options
        self._book = book
        self._log = log
        self._uploads = uploads
        self._kept = KeptStreams()
        self._responses = ResponseGateway(desk, book, log, _warning)
        self._answering: WeakValueDictionary[str, EventStream] = WeakValueDictionary()

    async def close(self) -> None:
        """End the streams that outlived their connections."""
        await self._kept.close()
        await self._responses.close()

    @property
    def uploads(self) -> Uploads | None:
        """See `gateway.reply.Gateway.uploads`."""
        return self._uploads

    async def call(self, dialect: Dialect, endpoint: Endpoint, wire: WireRequest, request_id: str) -> Reply:
        """See `gateway.reply.Gateway.call`."""
        book = self._open_book(dialect, endpoint, request_id)
        try:
            reply = await self._run(dialect, endpoint, wire, book)
        except DragomanError as error:
            reply = self._refuse(dialect, error, request_id, book)
        except Exception as error:
            self._log.exception("unexpected error", extra={"fields": {"request_id": request_id}})
            reply = self._refuse(dialect, internal_failure(error), request_id, book)
        except BaseException:
            self._book(book.close())
            raise
        if not isinstance(reply, Stream):
            self._book(book.close())
        return reply

    async def _run(self, dialect: Dialect, endpoint: Endpoint, wire: WireRequest, book: ReceiptBook) -> Reply:
        call = endpoint.read(msgspec.structs.replace(wire, card_of=self._desk.card_of))
        if isinstance(call, StaticCall):
            book.receipt.outcome = "finished"
            return Whole(status=call.status, body=call.body, content_type=call.content_type)
        if isinstance(call, ResumeCall | KeptCall | DropCall | EndThoughtCall):
            book.receipt.outcome = "finished"
            return await self._running(dialect, call)
        if isinstance(call, ResponseReplay):
            book.receipt.outcome = "finished"
            return await self._responses.replay(dialect, call, book)
        headers = self._note_ignored(call.ignored, book)
        if isinstance(call, ResponseCall):
            return await self._responses.answer(dialect, call, book, headers)
        if isinstance(call, ResponseCount):
            book.receipt.outcome = "finished"
            return await self._responses.count(dialect, call, headers)
        if isinstance(call, SmallCall):
            result = await self._desk.small(call.request)
            if isinstance(result, Embedded | Reranked):
                book.receipt.model, book.receipt.prompt_tokens = result.model, result.prompt_tokens
            book.receipt.outcome = "finished"
            if call.keep_alive is not None:
                self._desk.wish(call.model, call.keep_alive)
            written = _written(call.write(result), call.content_type or dialect.content_type, headers)
            return msgspec.structs.replace(written, status=endpoint.status) if isinstance(written, Whole) else written
        return await self._generate(dialect, call, book, headers, wire.headers.get(CONVERSATION_HEADER, ""))

    async def _running(self, dialect: Dialect, call: ResumeCall | KeptCall | DropCall | EndThoughtCall) -> Reply:
        """What is asked of answers that run or have run."""
        match call:
            case ResumeCall():
                pieces = self._kept.resume(call.conversation, call.offset, call.lost)
                return Download(content_type=dialect.stream_type, pieces=pieces)
            case KeptCall():
                body = call.write(self._kept.find(call.conversations))
            case DropCall():
                await self._kept.drop(call.conversation)
                return Whole(status=204, body=b"")
            case EndThoughtCall():
                events = self._answering.get(_bare(call.id))
                body = call.write(None if events is None else events.end_thought())
        return Whole(status=200, body=body, content_type=dialect.content_type)

    async def _generate(
        self, dialect: Dialect, call: GenerateCall, book: ReceiptBook, headers: dict[str, str], conversation: str = ""
    ) -> Reply:
        receipt = book.receipt
        receipt.stream, receipt.agent = call.stream, call.agent
        model, events = await self._desk.generate(call.requests)
        self._answering[_bare(receipt.request_id)] = events
        receipt.model, receipt.dropped_thoughts = model.card.id, events.dropped_thoughts
        if call.keep_alive is not None:
            self._desk.wish(model.card.id, call.keep_alive)
        headers = {**headers, **_warning(events.unenforced)}
        writer = call.writer(
            ReplyContext(
                card=model.card,
                created=int(time.time()),
                request_id=receipt.request_id,
                in_force=events.in_force,
                signer=self._desk.signer(model),
                edits=events.applied_edits,
            )
        )
        if call.stream:
            frames = FrameStream(events, writer, book, self._book, self._log)
            kept = conversation and dialect.stream_type == _SSE
            return Stream(
                content_type=dialect.stream_type,
                frames=await self._kept.keep(conversation, frames) if kept else frames,
                ping=dialect.ping,
                headers=headers,
            )
        answer = await fold(events, book)
        return Whole(status=200, body=writer.whole(answer), content_type=dialect.content_type, headers=headers)

    def _open_book(self, dialect: Dialect, endpoint: Endpoint, request_id: str) -> ReceiptBook:
        receipt = Receipt(request_id=request_id, dialect=dialect.name, path=endpoint.path)
        return ReceiptBook(receipt, keep_text=self._options.log_prompts)

    def _note_ignored(self, ignored: tuple[str, ...], book: ReceiptBook) -> dict[str, str]:
        if not ignored:
            return {}
        if self._options.strict_fields:
            raise UnsupportedField(f"Unknown field '{ignored[0]}'.", field=ignored[0], remedy="Leave it out.")
        book.receipt.ignored = ignored
        listed = ", ".join(name for name in ignored if name.isascii() and name.isprintable())
        return {IGNORED_HEADER: listed[:1024]} if listed else {}

    def _refuse(self, dialect: Dialect, error: DragomanError, request_id: str, book: ReceiptBook) -> Whole:
        reply = dialect.error(error, request_id)
        book.receipt.status = reply.status
        book.fail(error, "failed" if reply.status >= 500 else "refused")
        headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        return Whole(status=reply.status, body=reply.body, content_type=dialect.content_type, headers=headers)


def _written(body: bytes | ByteStream, content_type: str, headers: dict[str, str]) -> Reply:
    if isinstance(body, bytes):
        return Whole(status=200, body=body, content_type=content_type, headers=headers)
    return Download(
        content_type=body.content_type or content_type,
        pieces=body.pieces,
        size=body.size,
        headers={**headers, **body.headers},
    )


def _bare(ident: str) -> str:
    """An id without what a wire puts before it."""
    return ident.rpartition("-")[2].removeprefix("req_")


def _warning(unenforced: str) -> dict[str, str]:
    """RFC 7234 section 5.5: a miscellaneous warning that stays with the answer."""
    if not unenforced:
        return {}
    told = "".join(char if char.isprintable() and char not in '"\\' else " " for char in unenforced)
    return {WARNING_HEADER: f'299 - "grammar not enforced: {told[:512]}"'}
