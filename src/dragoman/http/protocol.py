"""uvicorn's HTTP protocol with bounds it does not have: header size and time, pipelining, HTTP/1.0 streams.

Knows the wire of HTTP/1; what a refusal looks like it asks the application.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dragoman.core.errors import DragomanError, HeadersTooLarge, InvalidRequest, RequestTimeout
from dragoman.gateway.reply import Whole
from dragoman.http.responder import encode

Refuse = Callable[[str, DragomanError], Whole]

MAX_PIPELINE = 16
_UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:", re.IGNORECASE)


class GuardedConfig(uvicorn.Config):
    """uvicorn's configuration plus what the protocol needs. Bytes and seconds."""

    max_header: int
    header_timeout: float
    refuse: Refuse


class GuardedProtocol(HttpToolsProtocol):
    """One connection.

    httptools keeps as many header bytes as it is sent and uvicorn waits for them as long as it takes; here both are
    bounded. httptools drops the body of a request that offers an upgrade, as Java's client does with h2c on every
    first request; here the offer is not seen (RFC 9110 section 7.8 lets a server ignore it). uvicorn marks only the
    newest of several pipelined requests when the connection is lost; here the running one learns it too.
    """

    config: GuardedConfig

    def __init__(self, config: GuardedConfig, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.access_log = False
        self._in_head = self._in_body = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client connected; its first request is due in time."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone; whoever works for it learns so."""
        self._stop_head_timer()
        super().connection_lost(exc)
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see whether headers are still open and how many there are."""
        starts_head = not self._in_head and not self._in_body
        continues_head = starts_head or self._in_head
        super().data_received(_without_upgrade(data) if continues_head else data)
        if not self._in_head:
            self._stop_head_timer()
            return
        # Bytes that came along with the end of a body are not counted: they are at most one read.
        self._head_bytes += len(data) if continues_head else 0
        if self._head_bytes > self.config.max_header:
            limit = self.config.max_header
            self._refuse(HeadersTooLarge(f"The request headers are larger than {limit} bytes."))
        elif self._head_timer is None:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        """A request line begins."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        """A request has arrived to its last byte."""
        self._in_body = False
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        """Start the request, or queue it behind the running one."""
        self._in_head, self._in_body = False, True
        super().on_headers_complete()
        if len(self.pipeline) > MAX_PIPELINE:
            self.transport.abort()
        elif self.pipeline:
            # Go on reading, or a client that leaves now would not be noticed. Bodies still stop the reading.
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """The parser gave up."""
        self._refuse(InvalidRequest(msg))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        served: Any = UntilClose(app, cycle) if cycle.scope["http_version"] == "1.0" else app
        super()._start_asgi_task(cycle, served)

    def _refuse(self, error: DragomanError) -> None:
        """Answer outside of any request and close; while a response is being written, only close."""
        self._stop_head_timer()
        if self._running is not None and not self._running.response_complete:
            self.transport.abort()
            return
        path = bytes(getattr(self, "url", b"")).partition(b"?")[0].decode("latin-1")
        self.transport.write(_response(self.config.refuse(path, error)))
        self.transport.close()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.config.header_timeout, self._head_timed_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._refuse(RequestTimeout("The request headers did not arrive in time."))
        else:
            self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """The bytes with the Upgrade header renamed, if the first head in them has one."""
    end = data.find(b"\r\n\r\n")
    found = _UPGRADE.search(data, 0, len(data) if end < 0 else end + 2)
    return data if found is None else data[: found.start()] + b"\r\nx-upgrade:" + data[found.end() :]


class UntilClose:
    """Runs an application for an HTTP/1.0 client, which knows no chunks: a body of unknown length ends with the
    connection (RFC 9112 section 6.3), where uvicorn would write chunks."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; see the class."""
        cycle, unbounded = self._cycle, False

        async def send_plain(message: Message) -> None:
            nonlocal unbounded
            if message["type"] == "http.response.start":
                unbounded = not any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
                if unbounded:
                    cycle.chunked_encoding = False
            elif unbounded:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_plain)


def _response(reply: Whole) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}".encode()]
    lines += [name + b": " + value for name, value in encode(reply.headers)]
    lines += [f"content-type: {reply.content_type}".encode(), f"content-length: {len(reply.body)}".encode()]
    return b"\r\n".join([*lines, b"connection: close", b"", reply.body])
