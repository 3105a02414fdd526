"""Gives slots to requests, and prefixes to slots, so that nothing is computed twice. Knows no queue and no answer.

A request is let in when a slot is free and it would not do better to wait: while another one prefills a prompt that
begins alike, it waits for that one, whose state is then saved and restored as often as it is wanted. All of this is
about time; llama.cpp compares the tokens of a slot with those of a prompt by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from dragoman.backend.llamacpp.mover import Mover, NotThere
from dragoman.backend.llamacpp.pool import Pool
from dragoman.backend.llamacpp.seat import Seat
from dragoman.backend.llamacpp.slots import UNKNOWN, WORTHWHILE, Slot, Slots, common_prefix
from dragoman.backend.llamacpp.tiers import Tiers
from dragoman.cache.base import CacheStats, EntryKind
from dragoman.core.exchange import EngineRequest

log = logging.getLogger(__name__)

_PATIENCE = 2
"""A request waits for the prefill of another one if that is at most so many times what it is spared."""
_CHEAP = 0.02
"""A computed prompt is saved, wanted by someone or not, if that takes at most this part of the time it took."""
_PAUSE_MS = 50.0
"""What it costs an answer to be interrupted before its first token: about two steps."""
_DISABLED_SECONDS = 60.0
_MOST_USELESS = 3
_IDLE_SECONDS = 0.5
_LOOK_SECONDS = 0.5
"""Between two looks at those whom others wait for."""
_FLUSH_SECONDS = 30.0
"""What the end of the server may take longer for the sake of prefixes."""


class SlotDesk:
    """The slots of one engine. `changed` is called when a request that was not let in may be by now. Without `tiers`
    it only chooses slots; with a `pool` all slots share one window."""

    def __init__(
        self,
        count: int,
        tiers: Tiers | None,
        *,
        changed: Callable[[], None],
        pool: Pool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots = Slots(count)
        self._tiers = tiers
        self._pool = pool
        self._mover: Mover | None = None
        self._changed = changed
        self._waiting: set[Seat] = set()
        self._clock = clock
        self._seats: set[Seat] = set()
        self._disabled_until = 0.0
        self._useless = 0
        self._flushing: asyncio.Task[None] | None = None
        self._released = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def seat(self, request: EngineRequest, namespace: str, *, plain: bool = True) -> Seat:
        """A place for a request, not in a slot yet."""
        seat = Seat(request, namespace, self, plain=plain)
        self._waiting.add(seat)
        return seat

    def reset(self, count: int, mover: Mover | None) -> None:
        """Another engine process: all slots are empty. What is saved stays."""
        self._slots = Slots(count)
        self._released.set()
        self._mover = mover
        self._disabled_until = 0.0

    def lost(self) -> None:
        """The engine process is gone."""
        self._mover = None
        self._seats.clear()
        self._stop_idling()
        self._stop_looking()

    def admit(self, seat: Seat) -> bool:
        """Let a request in, if that is the best for it. A slot is then taken, and what must be done there begins."""
        request, namespace = seat.request, seat.namespace
        if not self._slots.free():
            return False
        saved = 0 if self._looks(seat) else self._saved(seat)
        if seat.looking or self._does_better_to_wait(seat, saved):
            self._look_later()
            return False
        overlap = self._slots.held(namespace, request.prompt, busy=True)
        reused = request.prompt if _may_reuse(seat) else ()
        if request.slot is None:
            choice = self._slots.choose(namespace, reused, saved)
        else:
            choice = self._slots.pinned(request.slot, namespace, reused, saved)
        if choice is None:
            return False
        self._stop_idling()
        seat.slot, seat.shared, seat.prefilling = choice.slot, choice.shared, True
        seat.overlap = overlap - choice.shared
        if self._tiers is not None and choice.restore:
            seat.found = self._tiers.find(namespace, request.prompt, request.cache.session)
        self._waiting.discard(seat)
        self._seats.add(seat)
        emptied = self._in_the_way()
        if emptied or seat.found is not None or (self._can_save and choice.slot.lost(choice.shared)):
            seat.work(self._prepare(seat, choice.slot, emptied))
        return True

    def prompt_done(self, seat: Seat, prompt_ms: float) -> bool:
        """See seat.Desk."""
        if not seat.prefilling or seat.slot is None:
            return False
        if not self._is_worth_saving(seat, prompt_ms):
            self._prefilled(seat)
            return False
        seat.work(self._save_prompt(seat, seat.slot))
        return True

    def begun(self, seat: Seat, cached: int) -> None:
        """So many tokens of the prompt were in the slot indeed. A model whose states cannot be trimmed shows here."""
        if seat.restored:
            self._useless = 0 if cached >= seat.shared // 2 else self._useless + 1
            seat.restored = False
        if self._useless >= _MOST_USELESS:
            self._useless = 0
            self._disable("restored prefixes are of no use to this model")

    def leave(self, seat: Seat, content: tuple[int, ...] | None) -> None:
        """See seat.Desk."""
        self._seats.discard(seat)
        self._waiting.discard(seat)
        seat.prefilling = False
        seat.when_idle(lambda: self._give_back(seat, content))

    async def borrow(self, number: int) -> Slot:
        """Wait for the slot of that number to be free, and take it for something that is no request."""
        while (slot := self._slots.at(number)).busy:
            self._released.clear()
            await self._released.wait()
        self._stop_idling()
        self._slots.take(slot)
        return slot

    def give_back(self, slot: Slot) -> None:
        """After `borrow`."""
        self._release(slot)
        self._start_idling()
        self._changed()

    async def flush(self) -> None:
        """Save what free slots hold, where it survives this process and would be missed."""
        if self._tiers is None or not self._tiers.durable:
            return
        for slot in self._slots.free():
            if self._can_save and not slot.busy and slot.lost(0):
                slot.busy = True
                try:
                    await self._save(slot, slot.tokens, "answer", None)
                finally:
                    self._release(slot)
                    self._changed()

    async def close(self) -> None:
        """Flush while the engine still runs. Safe to call twice."""
        self._stop_idling()
        self._stop_looking()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                if self._flushing is not None:
                    await asyncio.wait((self._flushing,))
                await self.flush()
        except TimeoutError:
            log.warning("the engine saves its slots too slowly: some prefixes are lost")

    def stats(self) -> CacheStats:
        """Counts and gauges of what is saved in memory."""
        return CacheStats() if self._tiers is None else self._tiers.stats()

    # deciding

    @property
    def _can_save(self) -> bool:
        mover = self._mover
        able = self._tiers is not None and mover is not None and mover.able and not mover.lost
        return able and self._clock() >= self._disabled_until

    def _saved(self, seat: Seat) -> int:
        if not self._can_save or self._tiers is None or not _may_reuse(seat):
            return 0
        return self._tiers.known(seat.namespace, seat.request.prompt)

    def _does_better_to_wait(self, seat: Seat, saved: int) -> bool:
        if not self._can_save or not _may_reuse(seat):
            return False
        prompt = seat.request.prompt
        known = max(saved, self._slots.held(seat.namespace, prompt, busy=False))
        for leader in self._seats:
            if leader.prefilling and leader.plain and not leader.stalled and leader.namespace == seat.namespace:
                spared = _shared(prompt, leader.request.prompt) - known
                if spared >= WORTHWHILE and len(leader.request.prompt) - leader.shared <= _PATIENCE * spared:
                    return True
        return False

    def _looks(self, seat: Seat) -> bool:
        """Whether it must wait until it is known what other servers have written. Asked once for each request."""
        if seat.looking is None:
            able = self._can_save and self._tiers is not None and _may_reuse(seat)
            wanted = able and len(seat.request.prompt) > WORTHWHILE

            def known() -> None:
                seat.looking = False
                self._changed()

            seat.looking = wanted and self._tiers is not None and not self._tiers.look(known)
        return seat.looking

    def _is_worth_saving(self, seat: Seat, prompt_ms: float) -> bool:
        prompt = seat.request.prompt
        if not self._can_save or self._tiers is None or self._mover is None or not seat.plain:
            return False
        missing = len(prompt) - self._tiers.known(seat.namespace, prompt)
        if missing < WORTHWHILE:
            return False
        if seat.overlap >= WORTHWHILE or any(self._wants(other, seat) for other in self._waiting):
            return True
        return self._mover.saving_ms(len(prompt)) + _PAUSE_MS <= _CHEAP * prompt_ms

    def _wants(self, other: Seat, seat: Seat) -> bool:
        if other.namespace != seat.namespace or not _may_reuse(other):
            return False
        return _shared(other.request.prompt, seat.request.prompt) - self._saved(other) >= WORTHWHILE

    def _in_the_way(self) -> list[Slot]:
        """Free slots, now taken, whose contents leave the requests no room in a window that all share; first those
        used least recently. llama.cpp would empty any of them, and save nothing."""
        if self._pool is None or not self._can_save:
            return []
        idle = sorted((slot for slot in self._slots.free() if slot.tokens), key=lambda slot: slot.used)
        left = self._pool.left(one.claim for one in self._seats) - sum(len(slot.tokens) for slot in idle)
        found: list[Slot] = []
        while left < 0 and len(found) < len(idle):
            slot = idle[len(found)]
            self._slots.take(slot)
            left += len(slot.tokens)
            found.append(slot)
        return found

    def _disable(self, why: str) -> None:
        log.warning("prefixes are not shared between slots for %d seconds: %s", _DISABLED_SECONDS, why)
        self._disabled_until = self._clock() + _DISABLED_SECONDS

    # doing

    async def _prepare(self, seat: Seat, slot: Slot, emptied: Sequence[Slot]) -> None:
        """Make room, save what the slot holds, then put there what the request begins with."""
        await self._empty(emptied)
        if slot.lost(0 if seat.found is not None else seat.shared):
            await self._save(slot, slot.tokens, "answer", None)
        if seat.found is None:
            return
        state = await self._tiers.state(seat.found) if self._tiers is not None else None
        mover = self._mover
        done = state is not None and mover is not None and await mover.restore(seat, slot, state)
        if done and state is not None:
            slot.fill(seat.namespace, seat.request.prompt[: seat.found.length], seat.found.length)
            seat.shared, seat.restored = seat.found.length, True
        else:
            slot.tokens, slot.kept = (), 0
            seat.shared = 0
        seat.found = None

    async def _empty(self, slots: Sequence[Slot]) -> None:
        """Give back slots that `_in_the_way` has taken, their contents saved and gone."""
        left = list(slots)
        try:
            while left:
                slot = left[-1]
                if slot.lost(0):
                    await self._save(slot, slot.tokens, "answer", None)
                if slot.tokens and self._mover is not None:
                    await self._mover.erase(slot)
                self._release(left.pop())
        finally:
            for slot in left:
                self._release(slot)
            if slots:
                self._changed()

    async def _save_prompt(self, seat: Seat, slot: Slot) -> None:
        request = seat.request
        slot.fill(seat.namespace, request.prompt)
        try:
            await self._save(slot, request.prompt, "prompt", request.cache.session)
        finally:
            if self._mover is None or not self._mover.lost:
                self._prefilled(seat)  # else the engine is dying: who waits must not be sent there

    async def _save(self, slot: Slot, tokens: tuple[int, ...], kind: EntryKind, session: str | None) -> bool:
        mover, tiers, namespace = self._mover, self._tiers, slot.namespace
        if mover is None or tiers is None or namespace is None:
            return False
        try:
            state = await mover.save(slot, len(tokens), tiers)
        except NotThere as error:
            if self._pool is None:
                self._disable(str(error))
            slot.tokens, slot.kept = (), 0  # llama.cpp empties free slots when a window that all share is full
            return False
        if state is None:
            if self._mover is mover and mover.able and not mover.lost:
                self._disable("the state of a slot cannot be saved")
            return False
        tiers.keep(namespace, tokens, state, kind, session)
        slot.kept = len(tokens)
        return True

    def _give_back(self, seat: Seat, content: tuple[int, ...] | None) -> None:
        slot = seat.slot
        if slot is not None:
            if content is not None:
                slot.fill(seat.namespace if content else UNKNOWN, content if seat.plain else ())
            self._release(slot)
            self._start_idling()
        self._changed()

    def _release(self, slot: Slot) -> None:
        self._slots.release(slot)
        self._released.set()

    def _prefilled(self, seat: Seat) -> None:
        seat.prefilling = False
        self._changed()

    # those who wait

    def _look_later(self) -> None:
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._on_look)

    def _stop_looking(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _on_look(self) -> None:
        """Who waits does not wait for a request nobody reads, nor for a slow folder."""
        self._next_look = None
        for seat in self._seats:
            seat.look()
        for seat in self._waiting:
            seat.looking = False if seat.looking else seat.looking
        self._changed()

    # idle moments

    def _start_idling(self) -> None:
        self._stop_idling()
        if self._tiers is not None and self._tiers.durable and not self._seats:
            self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._on_idle)

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _on_idle(self) -> None:
        self._idle = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self.flush())


def _may_reuse(seat: Seat) -> bool:
    return seat.plain and seat.request.cache.reuse


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Leading tokens of the first that the state after the second can serve; never its last."""
    return min(common_prefix(one, other), len(one) - 1)
