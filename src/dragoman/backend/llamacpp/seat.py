"""One request's place in the engine: which slot, what it begins with, what is going on there. Knows no policy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from dragoman.backend.llamacpp.pool import claim_of
from dragoman.backend.llamacpp.slots import Slot
from dragoman.backend.llamacpp.tiers import Found
from dragoman.core.exchange import EngineRequest

log = logging.getLogger(__name__)


class Desk(Protocol):
    """What a seat needs of the desk that gives it out."""

    def prompt_done(self, seat: Seat, prompt_ms: float) -> bool:
        """See `Seat.prompt_done`."""
        ...

    def begun(self, seat: Seat, cached: int) -> None:
        """See `Seat.begun`."""
        ...

    def leave(self, seat: Seat, content: tuple[int, ...] | None) -> None:
        """See `Seat.leave`."""
        ...


class Seat:
    """Made when a request arrives. `plain`: its prompt is tokens and nothing else. `slot` is set once it may begin;
    `claim` is what it takes of a window that all slots share.
    `shared` leading tokens are expected not to be computed; `prefilling` from the beginning until its prompt is
    computed; `overlap` further tokens of it were in a slot in use when it began, so somebody else had them, too.
    `looking` while it waits for what other servers have written to be known; None before it was asked.

    An answer goes on only while its reader waits for more (`reading`, counted in `reads`). `stalled`: nobody has for a
    while, so that nobody else should wait for its prompt."""

    def __init__(self, request: EngineRequest, namespace: str, desk: Desk, *, plain: bool = True) -> None:
        self.request = request
        self.plain = plain
        self.namespace = namespace
        self.claim = claim_of(request)
        self.slot: Slot | None = None
        self.found: Found | None = None
        self.shared = 0
        self.overlap = 0
        self.restored = False
        self.prefilling = False
        self.left = False
        self.looking: bool | None = None
        self.reading = False
        self.reads = 0
        self.stalled = False
        self._reads_seen = -1
        self._desk = desk
        self._abandoned = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until nothing else is done in the slot, or until `abandon`. May be cancelled and repeated."""
        if self._work is None or self._work.done():
            return
        abandoned = asyncio.create_task(self._abandoned.wait())
        try:
            await asyncio.wait((self._work, abandoned), return_when=asyncio.FIRST_COMPLETED)
        finally:
            abandoned.cancel()

    def abandon(self) -> None:
        """The request is over: let go who awaits `ready`. What is done in the slot goes on to its end."""
        self._abandoned.set()

    def look(self) -> None:
        """See whether its reader has done anything since the last look."""
        self.stalled = not self.reading and self.reads == self._reads_seen
        self._reads_seen = self.reads

    def prompt_done(self, prompt_ms: float) -> bool:
        """Tell that the prompt is computed, which took so long. True: the slot is wanted for a moment; drop the
        request, await `ready` and send it again."""
        return self._desk.prompt_done(self, prompt_ms)

    def begun(self, cached: int) -> None:
        """Tell how many tokens of the prompt were in the slot when the engine took it up."""
        self._desk.begun(self, cached)

    def leave(self, content: tuple[int, ...] | None) -> None:
        """Give the slot back with that in it; None: as it was found. Safe to call twice."""
        if not self.left:
            self.left = True
            self._desk.leave(self, content)

    def work(self, job: Coroutine[Any, Any, None]) -> None:
        """Do something in the slot. It is never interrupted, so that what the slot holds stays known."""
        self._work = asyncio.create_task(_logged(job))

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call back as soon as nothing is done in the slot: now, or later."""
        if self._work is None or self._work.done():
            call()
        else:
            self._work.add_done_callback(lambda _: call())


async def _logged(job: Coroutine[Any, Any, None]) -> None:
    """Whatever goes wrong with a prefix must not fail the request: its prompt is computed then."""
    try:
        await job
    except Exception:
        log.exception("a prefix could not be moved")
