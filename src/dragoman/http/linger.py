"""Reads away what a client still sends after it has been answered. Keeps nothing."""

from __future__ import annotations

import asyncio

from starlette.types import Receive

MAX_SECONDS = 5.0
MAX_BYTES = 256 * 1024 * 1024


async def linger(receive: Receive) -> None:
    """Read and drop the rest of the body, at most MAX_BYTES and MAX_SECONDS of it."""
    left = MAX_BYTES
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return
