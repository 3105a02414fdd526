"""Whether the server is going down, and which requests still run. Knows no socket and no signal."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Drain:
    """Shared by the app, which enters every request, and by the server, which begins the drain.

    `draining`: new requests are refused. `cut`: running ones were cancelled. Used on one event loop.
    """

    def __init__(self) -> None:
        self.draining = False
        self.cut = False
        self._running: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """Requests in flight."""
        return len(self._running)

    def begin(self) -> None:
        """Refuse new requests from now on."""
        self.draining = True

    def cancel(self) -> None:
        """Cancel every request in flight."""
        self.draining = self.cut = True
        for task in tuple(self._running):
            task.cancel()

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await self._idle.wait()

    @contextmanager
    def request(self) -> Generator[None]:
        """Count the current task as a request in flight."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request must run in a task")
        self._running.add(task)
        self._idle.clear()
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._idle.set()
