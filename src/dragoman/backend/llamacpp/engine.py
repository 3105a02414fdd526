"""A llama.cpp server that answers: in a process of ours, or somebody else's. Knows how it ends, not how it began."""

from __future__ import annotations

import asyncio
from typing import Protocol

from dragoman.backend.llamacpp.address import Address
from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.endpoint import Endpoint
from dragoman.backend.llamacpp.logtail import LogTail
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.process import EngineProcess
from dragoman.backend.llamacpp.watch import hung

_GRACE = 5.0


class RunningEngine(Protocol):
    """A server that answers."""

    @property
    def endpoint(self) -> Endpoint:
        """Where."""
        ...

    @property
    def build(self) -> str:
        """What it is, '' when it has not said."""
        ...

    @property
    def pid(self) -> int | None:
        """Its process, where that is ours."""
        ...

    async def gone(self) -> str:
        """Wait until it is gone or hung; returns what happened to it, as a predicate."""
        ...

    async def stop(self) -> None:
        """End it, if it is ours. Safe to call twice, and after the end."""
        ...


class ProcessEngine:
    """A server in a process of ours."""

    def __init__(
        self,
        process: EngineProcess,
        address: Address,
        endpoint: Endpoint,
        log: LogTail,
        options: LlamaCppOptions,
        build: str = "",
    ) -> None:
        self._process = process
        self._address = address
        self._log = log
        self._options = options
        self._grace = _GRACE
        self.endpoint = endpoint
        self.build = build

    @property
    def pid(self) -> int | None:
        """Process id."""
        return self._process.pid

    async def gone(self) -> str:
        """Wait for the end of the process, or until it hangs."""
        ended = asyncio.create_task(self._process.wait())
        stuck = asyncio.create_task(hung(self.endpoint, self._options.silence, self._options.stall))
        try:
            await asyncio.wait((ended, stuck), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return self._process.ending() + because(self._log.last_words())
            self._grace = 0.0  # It would not hear a polite signal.
            return stuck.result() + because(self._log.last_words())
        finally:
            for task in (ended, stuck):
                task.cancel()
            await asyncio.gather(ended, stuck, return_exceptions=True)

    async def stop(self) -> None:
        """End the process and remove its socket."""
        await self._process.stop(self._grace)
        self._address.remove()


class RemoteEngine:
    """A server somebody else runs, watched by asking after its health."""

    pid = None
    build = ""

    def __init__(self, endpoint: Endpoint, interval: float) -> None:
        self.endpoint = endpoint
        self._interval = interval

    async def gone(self) -> str:
        """Wait until two health checks in a row fail."""
        client = Client(self.endpoint)
        failures = 0
        while failures < 2:
            await asyncio.sleep(self._interval if not failures else self._interval / 4)
            failures = 0 if await healthy(client) else failures + 1
        return "does not answer any more"

    async def stop(self) -> None:
        """Nothing: it is not ours."""


async def healthy(client: Client) -> bool:
    """Whether /health says so."""
    try:
        status, _ = await client.request("GET", "/health", patience=10)
    except ConnectionLost:
        return False
    return status == 200


def because(reason: str) -> str:
    """A reason in brackets, '' for none."""
    return f" ({reason})" if reason else ""
