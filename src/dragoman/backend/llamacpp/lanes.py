"""The queue in front of the engine: at most so many requests in it, of at most so many tokens together where they share
one window; the others wait in order. Knows no requests."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

from dragoman.backend.llamacpp.pool import Claim, Pool
from dragoman.core.errors import DragomanError, Overloaded

_SMOOTHING = 0.2
_LONGEST_RETRY = 60


class Ticket:
    """A place in the queue, then a lane. Await `granted`; `release` it at any time, more than once if need be.
    `may_begin` is asked when a lane is free; who may not is passed over and keeps its place."""

    def __init__(self, lanes: Lanes, may_begin: Callable[[], bool] | None = None, claim: Claim | None = None) -> None:
        self._lanes = lanes
        self.may_begin = may_begin
        self.claim = claim or Claim()
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.entered = time.monotonic()
        self.begun: float | None = None
        self.released = False

    async def granted(self) -> None:
        """Wait for a lane. Raises what the queue was emptied with. The place is kept when this is cancelled."""
        if not self._future.done():
            await asyncio.wait((self._future,))
        self._future.result()

    @property
    def queued_ms(self) -> float:
        """How long it waited, in milliseconds."""
        return ((self.begun or time.monotonic()) - self.entered) * 1000

    def release(self) -> None:
        """Give the place or the lane back."""
        self._lanes.leave(self)

    def grant(self) -> None:
        """Called by the queue."""
        self.begun = time.monotonic()
        if not self._future.done():
            self._future.set_result(None)

    def drop(self) -> None:
        """Called by the queue. Whoever still awaits `granted` gets an answer; `begun` stays None."""
        if not self._future.done():
            self._future.set_result(None)

    def fail(self, error: DragomanError) -> None:
        """Refuse it if it still waits; it must be released all the same."""
        if self.begun is None:
            self.refuse(error)

    def refuse(self, error: DragomanError) -> None:
        """Called by the queue."""
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # a caller that left is not an error of its own


class Lanes:
    """First in, first out, but for those who may not begin yet. While paused nobody is granted a lane, but all may
    wait. With a `pool` nobody overtakes who waits for room in it; a request that is alone always begins."""

    def __init__(
        self, lanes: int, max_waiting: int, clock: Callable[[], float] = time.monotonic, pool: Pool | None = None
    ) -> None:
        self._free = lanes
        self._lanes = lanes
        self._max_waiting = max_waiting
        self._clock = clock
        self._waiting: deque[Ticket] = deque()
        self._paused = False
        self._seconds = 1.0
        self._inside: set[Ticket] = set()
        self._pool = pool

    @property
    def running(self) -> int:
        """Lanes in use."""
        return self._lanes - self._free

    @property
    def waiting(self) -> int:
        """Requests without a lane."""
        return len(self._waiting)

    def enter(self, may_begin: Callable[[], bool] | None = None, claim: Claim | None = None) -> Ticket:
        """Take a place. Raises Overloaded when as many wait as may."""
        ticket = Ticket(self, may_begin, claim)
        self._waiting.append(ticket)
        self._move_up()
        # Who may not begin though a lane is free has that lane as good as promised, and is not one too many.
        if ticket.begun is None and len(self._waiting) > self._max_waiting + max(0, self._free):
            self._waiting.remove(ticket)
            ticket.released = True
            raise Overloaded(
                f"{len(self._waiting)} requests are waiting already, as many as may.", retry_after=self._retry_after()
            )
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Take a ticket back, wherever it is."""
        if ticket.released:
            return
        ticket.released = True
        if ticket.begun is None:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            ticket.drop()
            return
        self._seconds += _SMOOTHING * (self._clock() - ticket.begun - self._seconds)
        self._free += 1
        self._inside.discard(ticket)
        self._move_up()

    def resize(self, lanes: int) -> None:
        """Change the number of lanes; those in use stay in use."""
        self._free += lanes - self._lanes
        self._lanes = lanes
        self._move_up()

    def pause(self) -> None:
        """Grant no lanes for now."""
        self._paused = True

    def resume(self) -> None:
        """Grant lanes again."""
        self._paused = False
        self._move_up()

    def refuse_all(self, error: DragomanError) -> None:
        """Empty the queue: everyone waiting gets `error`."""
        while self._waiting:
            self._waiting.popleft().refuse(error)

    def look_again(self) -> None:
        """Ask those who might not begin whether they may now."""
        self._move_up()

    def _move_up(self) -> None:
        if self._paused:
            return
        for ticket in list(self._waiting):
            if self._free <= 0 or not self._has_room(ticket):
                return
            if ticket.may_begin is None or ticket.may_begin():
                self._free -= 1
                self._waiting.remove(ticket)
                self._inside.add(ticket)
                ticket.grant()

    def _has_room(self, ticket: Ticket) -> bool:
        if self._pool is None or not self._inside:
            return True
        return self._pool.left(one.claim for one in (*self._inside, ticket)) >= 0

    def _retry_after(self) -> int:
        """Seconds until a place is likely free: lanes empty at the mean rate of late."""
        return max(1, min(_LONGEST_RETRY, math.ceil(self._seconds / self._lanes)))
