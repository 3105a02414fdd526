"""Sends a body in pieces. Knows no file."""

from __future__ import annotations

import asyncio

from dragoman.gateway.reply import Download
from dragoman.http.disconnect import ClientGone
from dragoman.http.responder import RawHeaders, Responder, encode


async def send_download(reply: Download, responder: Responder, gone: asyncio.Task[None], *, head: bool) -> None:
    """Send all pieces, or with `head` only the headers. Raises ClientGone when the client leaves first. A piece that
    cannot be read ends the connection before the promised length, which is how the client learns of it."""
    fields: RawHeaders = encode(reply.headers)
    if reply.size is not None:
        fields.append((b"content-length", str(reply.size).encode()))
    try:
        await responder.start(200, reply.content_type, fields)
        if not head:
            async for piece in reply.pieces:
                if gone.done():
                    raise ClientGone
                await responder.send({"type": "http.response.body", "body": piece, "more_body": True})
        await responder.send({"type": "http.response.body", "body": b""})
    finally:
        await reply.pieces.aclose()
