"""Responses that run without their client: tasks, their events so far, and who listens. Knows no wire and no store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from dragoman.core.errors import Overloaded
from dragoman.core.responses import ResponseEvent, ResponseRecord

Work = Callable[[], Awaitable[None]]

MOST_JOBS = 256
_STOP_SECONDS = 10.0


class BackgroundJob:
    """One response that runs. `record` tells how it stands; `add` is called with what it says, `end` once when it is
    over and stored."""

    def __init__(self, id: str, tenant: str, record: Callable[[], ResponseRecord]) -> None:
        self.id = id
        self.tenant = tenant
        self.record = record
        self.events: list[ResponseEvent] = []
        self.cancelled = False
        self._over = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self, work: Work, done: Callable[[], None]) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(work, done))
        # A task that is cancelled before its first step takes none, not even the one that stores its end.
        await asyncio.sleep(0)

    def add(self, events: Iterable[tuple[str, bytes]]) -> None:
        """More of its stream: names and JSON of events, which are numbered in order."""
        start = len(self.events)
        self.events += [ResponseEvent(start + at, name, data) for at, (name, data) in enumerate(events)]
        self._tell()

    async def cancel(self) -> None:
        """Stop it and wait until that is stored."""
        self.cancelled = True
        await self.stop()

    async def stop(self) -> None:
        """Stop it, because the server does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=_STOP_SECONDS)

    async def tail(self, after: int) -> AsyncGenerator[list[ResponseEvent]]:
        """Events numbered above `after`, those to come included. Leaving early stops nothing."""
        at = after + 1
        while True:
            changed = self._changed
            if at < len(self.events):
                batch, at = self.events[at:], len(self.events)
                yield batch
            elif self._over:
                return
            else:
                await changed.wait()

    async def _run(self, work: Work, done: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await work()
        finally:
            self._over = True
            done()
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class BackgroundJobs:
    """All that run now."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], BackgroundJob] = {}

    def check_room(self) -> None:
        """Raises Overloaded when too many run or wait."""
        if len(self._jobs) >= MOST_JOBS:
            raise Overloaded(f"{MOST_JOBS} background responses are running or waiting.", retry_after=30)

    async def start(self, job: BackgroundJob, work: Work) -> None:
        """Run `work`, which feeds the job and stores its end, also when it is cancelled."""
        key = (job.tenant, job.id)
        self._jobs[key] = job
        await job.run(work, lambda: self._forget(key))

    def _forget(self, key: tuple[str, str]) -> None:
        self._jobs.pop(key, None)

    def get(self, id: str, tenant: str = "") -> BackgroundJob | None:
        """The job of that response, None when it does not run here."""
        return self._jobs.get((tenant, id))

    async def close(self) -> None:
        """Stop all."""
        await asyncio.gather(*(job.stop() for job in list(self._jobs.values())))
