"""A small HTTP/1.1 client for one llama.cpp server: whole JSON answers and event streams. Knows HTTP and the framing
of server-sent events, nothing of what they carry.

Ours, because it is the hot path of streaming: llama.cpp's threads spin at barriers, so time spent here is taken from
decoding. Measured on frames that come one at a time (CPU time per frame, asyncio and uvloop): this client 84 and 74 µs,
h11 132 and 120 µs, httpx2 477 and 525 µs; in bulk 13, 25 and 51 µs. The HTTP parser is httptools.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Protocol, cast

import httptools

from dragoman.backend.llamacpp.endpoint import Endpoint

_CONNECT_SECONDS = 10.0
_LONGEST_LINE = 64 * 1024 * 1024
_HIGH_WATER = 256
_LOW_WATER = 64
_NEVER = float("inf")


class ConnectionLost(Exception):
    """The connection could not be made, or ended before the answer was complete."""


class _Parser(Protocol):
    def feed_data(self, data: bytes) -> None: ...
    def get_status_code(self) -> int: ...


class Exchange(asyncio.Protocol):
    """One request on one connection. Await `status`, then either `body` or `next_data` until it returns None."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = cast("_Parser", httptools.HttpResponseParser(self))
        self._transport: asyncio.Transport | None = None
        self._status: int | None = None
        self._streaming = False
        self._framed = False
        self._paused = False
        self._complete = False
        self._lost: ConnectionLost | None = None
        self._tail = b""
        self._body: list[bytes] = []
        self._events: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._silent_at = _NEVER

    @property
    def ready(self) -> bool:
        """Whether `next_data` would return at once."""
        return bool(self._events) or self._complete

    @property
    def complete(self) -> bool:
        """Whether the whole answer is here."""
        return self._complete

    async def status(self) -> int:
        """The status code, once the headers are here. Raises ConnectionLost."""
        while self._status is None:
            await self.more()
        return self._status

    async def body(self) -> bytes:
        """The whole body. Raises ConnectionLost."""
        while not self._complete:
            await self.more()
        return b"".join(self._body)

    async def next_data(self, patience: float | None = None) -> bytes | None:
        """The data of the next server-sent event, None after the last. Raises ConnectionLost; raises TimeoutError
        after `patience` silent seconds, after which it may be called again. Nothing is lost when it is cancelled."""
        while (data := self.pop()) is None and not self._complete:
            await self.more(patience)
        return data

    def pop(self) -> bytes | None:
        """The data of the next server-sent event that is here; None when there is none."""
        if not self._events:
            return None
        data = self._events.popleft()
        if self._paused and len(self._events) < _LOW_WATER:
            self._resume()
        return data

    def more(self, patience: float | None = None) -> asyncio.Future[None]:
        """Done when more of the answer has come; to be awaited at once. A plain future, since every token waits for one
        and another coroutine would cost as much as the rest of the wait. Raises ConnectionLost; the future raises
        TimeoutError as `next_data` does."""
        if self._lost is not None:
            raise self._lost
        waiter = self._waiter = self._loop.create_future()
        if patience is not None:
            self._silent_at = self._loop.time() + patience
            if self._timer is None:
                self._timer = self._loop.call_at(self._silent_at, self._on_timer)
        else:
            self._silent_at = _NEVER
        return waiter

    def close(self) -> None:
        """Drop the connection at once; whoever waits gets ConnectionLost. Safe to call twice."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._lose("The request was dropped.")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._lose(f"The server does not speak HTTP: {error}.")
            self.close()
            return
        if len(self._events) > _HIGH_WATER and not self._paused and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        if exc is None and self._status is not None and not self._framed:
            self._complete = True  # The end of the connection is the end of the body (RFC 9112, 6.3).
        self._lose(f"The connection broke: {exc}." if exc else "The connection was closed in the middle of an answer.")

    # httptools callbacks

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._status = self._parser.get_status_code()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        name = name.lower()
        if name == b"content-type" and value.lstrip().startswith(b"text/event-stream"):
            self._streaming = True
        elif name in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        if not self._streaming:
            self._body.append(body)
            return
        *lines, self._tail = (self._tail + body).split(b"\n") if self._tail else body.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._events.append(line[5:].strip())
        if len(self._tail) > _LONGEST_LINE:
            self._lose("The server sent an event without end.")
            self.close()

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._complete = True

    # inside

    def _on_timer(self) -> None:
        """One timer serves many waits: it is set anew only when it goes off."""
        self._timer = None
        if self._waiter is None or self._waiter.done() or self._silent_at == _NEVER:
            return
        if self._loop.time() < self._silent_at:
            self._timer = self._loop.call_at(self._silent_at, self._on_timer)
        else:
            self._waiter.set_exception(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _lose(self, message: str) -> None:
        if self._lost is None and not self._complete:
            self._lost = ConnectionLost(message)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()

    def _resume(self) -> None:
        self._paused = False
        if self._transport is not None:
            self._transport.resume_reading()

    def send(self, data: bytes) -> None:
        """Write the request."""
        if self._transport is not None:
            self._transport.write(data)


class Client:
    """Makes exchanges with one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._tls = ssl.create_default_context() if endpoint.tls else None

    async def open(self, method: str, path: str, body: bytes = b"") -> Exchange:
        """Send one request. Raises ConnectionLost when the server cannot be reached within ten seconds."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                exchange = await self._connect()
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(f"The server cannot be reached: {error or 'no answer'}.") from error
        exchange.send(self._endpoint.head(method, path, len(body)) + body)
        return exchange

    async def request(
        self, method: str, path: str, body: bytes = b"", *, patience: float | None = None
    ) -> tuple[int, bytes]:
        """One whole answer: status and body. Raises ConnectionLost, also after `patience` seconds."""
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(patience):
                exchange = await self.open(method, path, body)
                return await exchange.status(), await exchange.body()
        except TimeoutError as error:
            raise ConnectionLost(f"The server did not answer within {patience:g} seconds.") from error
        finally:
            if exchange is not None:
                exchange.close()

    async def _connect(self) -> Exchange:
        loop = asyncio.get_running_loop()
        endpoint = self._endpoint
        if endpoint.socket:
            _, exchange = await loop.create_unix_connection(Exchange, endpoint.socket)
        else:
            _, exchange = await loop.create_connection(
                Exchange, endpoint.host.strip("[]"), endpoint.port, ssl=self._tls
            )
        return exchange
