"""Tells when a server that still runs has stopped working. Knows its address, neither its process nor requests."""

from __future__ import annotations

import asyncio

from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.endpoint import Endpoint

_INTERVAL = 5.0
"""Seconds between two questions, at most."""


async def hung(endpoint: Endpoint, silence: float, stall: float) -> str:
    """Wait until the server is hung; returns in which way, as a predicate. 0 seconds switch a check off.

    `silence`: /health is answered by a thread of its own, so even a long batch is no excuse. `stall`: /slots is
    answered between two batches, so this is how long one batch may take.
    """
    client = Client(endpoint)
    checks = [
        asyncio.create_task(_unanswered(client, path, seconds, what))
        for path, seconds, what in (
            ("/health", silence, "left health checks unanswered"),
            ("/slots", stall, "was stuck in one batch"),
        )
        if seconds > 0
    ]
    if not checks:
        await asyncio.Event().wait()
    try:
        done, _ = await asyncio.wait(checks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)


async def _unanswered(client: Client, path: str, seconds: float, what: str) -> str:
    """Two questions, each of half the time: when this process itself was stopped for a while, the first fails for no
    fault of the server's."""
    pause = min(_INTERVAL, seconds / 4)
    failures = 0
    while failures < 2:
        await asyncio.sleep(pause)
        failures = 0 if await answers(client, path, seconds / 2) else failures + 1
    return f"{what} for {seconds:g} seconds"


async def answers(client: Client, path: str, seconds: float) -> bool:
    """Whether any answer comes within `seconds`."""
    try:
        await client.request("GET", path, patience=seconds)
    except ConnectionLost:
        return False
    return True
