"""Writes responses as ASGI messages. Knows no request and no policy."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.types import Receive, Send

from dragoman.gateway.reply import Whole
from dragoman.http.linger import linger

RawHeaders = list[tuple[bytes, bytes]]

_BODILESS = (204, 304)  # must not carry Content-Length (RFC 9110 section 8.6)
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


class Responder:
    """The way back to one client. `headers` go with whatever is answered; `started` tells that a status was sent."""

    def __init__(self, send: Send, receive: Receive) -> None:
        self.headers: RawHeaders = []
        self.started = False
        self.send = send
        self._receive = receive

    async def start(self, status: int, content_type: str, headers: RawHeaders) -> None:
        """Send status and headers."""
        self.started = True
        fields = [*self.headers, *headers]
        if status not in _BODILESS:
            fields.append((b"content-type", content_type.encode("latin-1")))
        await self.send({"type": "http.response.start", "status": status, "headers": fields})

    async def whole(self, reply: Whole, headers: RawHeaders | None = None) -> None:
        """Send a complete response."""
        await self._head(reply, headers or [])
        await self.send({"type": "http.response.body", "body": reply.body})

    async def final(self, reply: Whole, unread: bool) -> None:
        """Send a complete response, then close the connection.

        With `unread` the rest of the request body is read for a while before closing: closing with bytes unread
        resets the connection, and a client that is still sending would never see the answer.
        """
        await self._head(reply, [(b"connection", b"close")])
        await self.send({"type": "http.response.body", "body": reply.body, "more_body": True})
        if unread:
            await linger(self._receive)
        await self.send({"type": "http.response.body", "body": b""})

    async def _head(self, reply: Whole, headers: RawHeaders) -> None:
        fields = [*encode(reply.headers), *headers]
        if reply.status not in _BODILESS:
            fields.append((b"content-length", str(len(reply.body)).encode()))
        await self.start(reply.status, reply.content_type, fields)


def encode(headers: Mapping[str, str]) -> RawHeaders:
    """Headers as bytes. What is not printable ASCII is percent-encoded: a value can never start a new header."""
    return [(name.encode("latin-1"), _clean(value).encode()) for name, value in headers.items()]


def _clean(value: str) -> str:
    return value if value.isascii() and value.isprintable() else quote(value, safe=_PRINTABLE)
