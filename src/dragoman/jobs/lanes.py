"""Turns for work that has time: only on lanes that nobody else wants. Knows no engine and no batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from msgspec import Struct

R = TypeVar("R")

_POLL_SECONDS = 0.05
# A call takes this long to show in the engine's numbers; until then it is counted here.
_FRESH_SECONDS = 0.05
_PATIENCE_SECONDS = 1.0
# So often one call may be put off for others that wait; then it stays, or a busy server would never finish it.
_MAX_EVICTIONS = 3


class Load(Struct, frozen=True):
    """What the engine does now, in requests. No lanes: nothing may be started."""

    lanes: int
    running: int
    waiting: int


class _Seat(Generic[R]):
    """One call that has its turn."""

    def __init__(self, since: float, work: asyncio.Future[R], evictions: int) -> None:
        self.since = since
        self.work = work
        self.evictions = evictions
        self.evicted = False


class IdleLanes:
    """Lets a call begin when a lane is idle and nobody waits for one, in order of asking. When requests have waited for
    `patience` seconds all the same, the call that began last is broken off and begins anew later."""

    def __init__(self, load: Callable[[], Load], *, patience: float = _PATIENCE_SECONDS) -> None:
        self._load = load
        self._patience = patience
        self._seats: list[_Seat[Any]] = []
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._pressed: float | None = None

    @property
    def lanes(self) -> int:
        """How many calls could run at once if nobody else came."""
        return max(1, self._load().lanes)

    async def run(self, call: Callable[[], Awaitable[R]]) -> R:
        """The result of `call`, made when its turn comes and again when it was broken off for others. Cancelling gives
        up the turn."""
        evictions = 0
        while True:
            async with self._seated(call, evictions) as seat:
                try:
                    return await asyncio.shield(seat.work)
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if not seat.evicted or (task is not None and task.cancelling()):
                        raise
            evictions += 1

    def relieve(self) -> None:
        """Break off one call if requests have been waiting for long. To be called now and then."""
        now = asyncio.get_running_loop().time()
        if not self._seats or not self._others_wait(self._load()):
            self._pressed = None
        elif self._pressed is None:
            self._pressed = now
        elif now - self._pressed >= self._patience:
            self._pressed = now
            self._evict()

    def _evict(self) -> None:
        for seat in reversed(self._seats):
            if seat.evictions < _MAX_EVICTIONS and not seat.evicted:
                seat.evicted = True
                seat.work.cancel()
                return

    @asynccontextmanager
    async def _seated(self, call: Callable[[], Awaitable[R]], evictions: int) -> AsyncGenerator[_Seat[R]]:
        loop = asyncio.get_running_loop()
        async with self._turn:
            while not self._free(loop.time()):
                self._freed.clear()
                try:
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._freed.wait()
                except TimeoutError:
                    pass
            seat = _Seat(loop.time(), asyncio.ensure_future(call()), evictions)
            self._seats.append(seat)
        try:
            yield seat
        finally:
            if not seat.work.done():
                seat.work.cancel()
                await asyncio.wait((seat.work,))
            self._seats.remove(seat)
            self._freed.set()

    def _free(self, now: float) -> bool:
        load = self._load()
        fresh = sum(now - seat.since < _FRESH_SECONDS for seat in self._seats)
        taken = max(load.running + load.waiting + fresh, len(self._seats))
        return taken < load.lanes and not self._others_wait(load)

    def _others_wait(self, load: Load) -> bool:
        """Calls from here wait too, a moment before they run, but never make the engine's work more than its lanes."""
        return load.running + load.waiting > load.lanes or load.waiting > len(self._seats)
