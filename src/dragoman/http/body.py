"""Reads a request body within bounds of size and time. Knows no content but its encoding."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.types import Message, Receive

from dragoman.core.errors import DragomanError, InvalidRequest, PayloadTooLarge, RequestTimeout
from dragoman.http.disconnect import ClientGone
from dragoman.http.inflate import ENCODINGS, inflate


class Unread(Exception):
    """A refusal while the body is still on its way. `linger`: the client may be sending right now."""

    def __init__(self, error: DragomanError, *, linger: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.linger = linger


class BodyReader:
    """`limit` bytes, before and after decompression; `timeout` seconds for each piece."""

    def __init__(self, limit: int, timeout: float) -> None:
        self._limit = limit
        self._timeout = timeout

    async def read(self, headers: dict[str, str], receive: Receive) -> bytes:
        """The body, decompressed.

        Raises Unread with PayloadTooLarge (at once when Content-Length tells) or RequestTimeout, InvalidRequest for
        a Content-Encoding other than gzip and deflate or data that is not what it claims, PayloadTooLarge when
        decompression shows the size, ClientGone.
        """
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ENCODINGS:
            raise InvalidRequest(
                f"The Content-Encoding '{encoding[:40]}' is not understood.",
                field="content-encoding",
                remedy="Send the body plain, or with gzip or deflate.",
            )
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limit:
            raise Unread(_too_large(self._limit), linger=True)
        body = await self._pieces(receive)
        if ENCODINGS[encoding] is None or not body:
            return body
        # In a thread: 64 MiB of output take the better part of a second.
        return await asyncio.to_thread(inflate, body, encoding, self._limit)

    async def pieces(
        self, headers: dict[str, str], receive: Receive, too_large: PayloadTooLarge, limit: int
    ) -> AsyncGenerator[bytes]:
        """The body as it arrives, at most `limit` bytes. Raises Unread with `too_large` or RequestTimeout,
        InvalidRequest for any Content-Encoding, ClientGone."""
        if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise Unread(
                InvalidRequest("A form must be sent without Content-Encoding.", field="content-encoding"), linger=True
            )
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise Unread(too_large, linger=True)
        size, more = 0, True
        while more:
            message = await self._next(receive)
            if message["type"] != "http.request":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            size += len(piece)
            more = message.get("more_body", False)
            if size > limit:
                raise Unread(too_large, linger=more)
            yield piece

    async def _pieces(self, receive: Receive) -> bytes:
        pieces = [piece async for piece in self.pieces({}, receive, _too_large(self._limit), self._limit)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _next(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(self._timeout):
                return await receive()
        except TimeoutError:
            error = RequestTimeout(f"No data of the request body came for {self._timeout:g} seconds.")
            raise Unread(error, linger=False) from None


def _too_large(limit: int) -> PayloadTooLarge:
    """The error for a body over `limit` bytes."""
    return PayloadTooLarge(
        f"The request body is larger than {limit} bytes.",
        remedy="Send less, or start the server with a larger --max-body.",
    )
