"""The gateway over the service desk: reads a call with its dialect, runs it, writes the reply, books the receipt."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec import Struct

from dragoman.core.errors import DragomanError, UnsupportedField
from dragoman.dialects.base import Dialect, Endpoint, GenerateCall, ReplyContext, SmallCall, StaticCall, WireRequest
from dragoman.gateway.frames import FrameStream, fold, internal_failure
from dragoman.gateway.reply import Reply, Stream, Whole
from dragoman.service.desk import ServiceDesk
from dragoman.telemetry.receipt import Receipt, ReceiptBook

IGNORED_HEADER = "x-dragoman-ignored"

Booking = Callable[[Receipt], None]


class GatewayOptions(Struct, frozen=True, kw_only=True):
    """`strict_fields` refuses unknown request fields instead of listing them in a header; `log_prompts` puts prompts
    and answers on the receipt."""

    strict_fields: bool = False
    log_prompts: bool = False


class ServiceGateway:
    """Implements `gateway.reply.Gateway`. `book` is called once per request, when it is over."""

    def __init__(self, desk: ServiceDesk, options: GatewayOptions, book: Booking, log: logging.Logger) -> None:
        self._desk = desk
        self._options = options
        self._book = book
        self._log = log

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
        if isinstance(reply, Whole):
            self._book(book.close())
        return reply

    async def _run(self, dialect: Dialect, endpoint: Endpoint, wire: WireRequest, book: ReceiptBook) -> Reply:
        call = endpoint.read(wire)
        if isinstance(call, StaticCall):
            book.receipt.outcome = "finished"
            return Whole(status=200, body=call.body, content_type=call.content_type)
        headers = self._note_ignored(call.ignored, book)
        if isinstance(call, SmallCall):
            result = await self._desk.small(call.request)
            book.receipt.outcome = "finished"
            return Whole(
                status=200,
                body=call.write(result),
                content_type=call.content_type or dialect.content_type,
                headers=headers,
            )
        return await self._generate(dialect, call, book, headers)

    async def _generate(
        self, dialect: Dialect, call: GenerateCall, book: ReceiptBook, headers: dict[str, str]
    ) -> Reply:
        receipt = book.receipt
        receipt.stream = call.stream
        model, events = await self._desk.generate(call.requests)
        receipt.model = model.card.id
        writer = call.writer(ReplyContext(card=model.card, created=int(time.time()), request_id=receipt.request_id))
        if call.stream:
            frames = FrameStream(events, writer, book, self._book, self._log)
            return Stream(content_type=dialect.stream_type, frames=frames, ping=dialect.ping, headers=headers)
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
