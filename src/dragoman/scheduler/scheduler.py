"""The step loop's body: which row does what next. Called on the engine thread only; knows no event loop and no wire."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.cache.base import EntryKind, Hit, PrefixCache
from dragoman.core.errors import DragomanError, EngineFailure, InvalidRequest
from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.mask import MaskProvider
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import Engine, RowStep
from dragoman.scheduler.admission import fault_of
from dragoman.scheduler.deadlines import Deadlines
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.memory import MemoryBudget
from dragoman.scheduler.pace import Pace
from dragoman.scheduler.prefixes import BLOCK, Prefixes
from dragoman.scheduler.queue import WaitingQueue
from dragoman.scheduler.sequence import Sequence
from dragoman.scheduler.shares import shares_of
from dragoman.scheduler.sharing import Sharing
from dragoman.scheduler.states import RowStates
from dragoman.scheduler.tally import Tally

log = logging.getLogger(__name__)


class Delivery(Struct, frozen=True):
    """News of one request. The last one has `chunk.finish` or `error`; with `error` the chunk is empty."""

    id: str
    chunk: TokenChunk = TokenChunk()
    error: DragomanError | None = None

    @property
    def is_last(self) -> bool:
        """Whether the request ended with this."""
        return self.error is not None or self.chunk.finish is not None


MaskFor = Callable[[EngineRequest], MaskProvider | None]


class Scheduler:
    """Feeds an engine that is loaded. Every request added ends in exactly one last delivery.

    One step prefills at most a chunk and a quarter (see SchedulerLimits), oldest rows first and several at once, then
    decodes all rows that are ready.
    Rows are given in order of arrival, with one exception: a request whose prompt begins like one that is being
    prefilled waits for that instead of computing it again, and later ones may pass it as far as there are more free
    rows than it and its like will need.

    `cache` keeps prefixes: the stable boundary of a prompt, the prompt's end where the answer's entry will not serve
    it, prompt and answer of rows that finish, and as much as was computed of those that are cancelled. `mask_for`
    gives the constraint of a request. `clock` counts seconds and is the clock of `arrived`.
    """

    def __init__(
        self,
        engine: Engine,
        limits: SchedulerLimits,
        cache: PrefixCache | None = None,
        *,
        mask_for: MaskFor | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.lanes = limits.lanes(engine.capabilities.lanes)
        self._engine = engine
        self._pace = Pace(limits.prefill_chunk, limits.prefill_seconds)
        self._idle_pace = Pace(limits.prefill_chunk_idle, limits.prefill_seconds_idle)
        self._mask_for = mask_for
        self._clock = clock
        self._prefixes = Prefixes(engine, cache)
        self._sharing = Sharing(self._prefixes)
        self._memory = MemoryBudget(engine, limits)
        self._deadlines = Deadlines()
        self._queue = WaitingQueue()
        self._prefilling: dict[str, Sequence] = {}
        self._decoding: dict[str, Sequence] = {}
        self._free_rows = list(range(self.lanes))
        self._news: list[Delivery] = []
        self._tally = Tally()

    @property
    def has_work(self) -> bool:
        """Whether a step would do or deliver anything."""
        return bool(self._news or self._prefilling or self._decoding or self._queue)

    @property
    def tally(self) -> Tally:
        """A copy of the counts, with the gauges as they are now."""
        stats = self._prefixes.stats
        return replace(
            self._tally,
            running=len(self._prefilling) + len(self._decoding),
            waiting=len(self._queue),
            cache_bytes=stats.bytes,
            cache_entries=stats.entries,
            cache_evicted=stats.evicted,
        )

    def add(self, request: EngineRequest, arrived: float) -> None:
        """Queue a request; one that can never run ends with an error in the next step. Raises ValueError for the id
        of a request that has not ended."""
        if self._find(request.id) is not None:
            raise ValueError(f"a request with the id {request.id!r} has not ended yet")
        self._tally.added += 1
        lane = "batched" if self.lanes > 1 else "serial"
        sequence = Sequence(request, arrived, self._engine.context_length, lane)
        fault = fault_of(request, self._engine.context_length) or self._memory_fault(sequence)
        if fault is not None:
            self._tally.failed += 1
            self._news.append(Delivery(request.id, error=fault))
            return
        self._queue.push(sequence)
        self._sharing.enlist(sequence, self._prefilling.values())
        if sequence.expires is not None:
            self._deadlines.add(sequence.expires, sequence.id)

    def cancel(self, id: str) -> None:
        """End a request at any stage; its row is free at once, and what was computed of it is cached. Unknown and
        ended ids are ignored."""
        sequence = self._drop(id)
        if sequence is not None:
            self._tally.cancelled += 1
            self._news.append(Delivery(id, sequence.cancel(self._clock())))

    def fail_all(self, error: DragomanError) -> None:
        """End everything with that error, in the next step's deliveries."""
        for sequence in (*self._rows, *self._queue):
            self._fail(sequence, error)

    def close(self) -> None:
        """Let go of every prefix, before the engine is unloaded."""
        self._prefixes.clear()
        for sequence in self._queue:
            sequence.fork = None

    def step(self) -> list[Delivery]:
        """One unit of work; what it brought for each request, in order."""
        self._expire()
        self._admit()
        self._prefill()
        self._decode()
        return self.settle()

    def settle(self) -> list[Delivery]:
        """What has gathered since the last step or settle; without a step only ends that took no work."""
        news, self._news = self._news, []
        return news

    def states(self) -> RowStates:
        """The states of rows that have ended, kept or computed anew where a row is free."""
        return RowStates(self._engine, self._prefixes, self._free_rows[0] if self._free_rows else None)

    @property
    def _rows(self) -> tuple[Sequence, ...]:
        return (*self._prefilling.values(), *self._decoding.values())

    def _find(self, id: str) -> Sequence | None:
        return self._queue.get(id) or self._prefilling.get(id) or self._decoding.get(id)

    def _memory_fault(self, sequence: Sequence) -> DragomanError | None:
        try:
            return self._memory.project(sequence)
        except Exception as fault:
            return _failure("estimating the memory of a row", fault)

    def _expire(self) -> None:
        """End those whose deadline has come, wherever they are. With EngineFailure, because it is the server that was
        slow: RequestTimeout blames the client for its body, and a finish would sell a torso as an answer."""
        if not self._deadlines:
            return
        now = self._clock()
        for id in self._deadlines.passed(now):
            sequence = self._find(id)
            if sequence is not None and sequence.expires is not None and sequence.expires <= now:
                self._drop(id)
                self._fail(sequence, EngineFailure(sequence.overdue))

    def _admit(self) -> None:
        """Give free rows to those that wait longest and can begin."""
        held = 0
        for sequence in self._queue:
            if len(self._free_rows) <= held:
                return
            if not sequence.is_held:
                if not self._has_row(sequence):
                    continue
                if not self._has_memory(sequence):
                    return
                hit = self._sharing.prefix_for(sequence, self._rows)
                if not sequence.is_held:
                    self._queue.remove(sequence.id)
                    self._open(sequence, hit)
                    continue
            held += 1

    def _has_row(self, sequence: Sequence) -> bool:
        """Whether the row it asks for, if it does, is free; others may pass it while that is not so."""
        wanted = sequence.request.slot
        return wanted is None or wanted % self.lanes in self._free_rows

    def _take_row(self, sequence: Sequence) -> int:
        wanted = sequence.request.slot
        if wanted is None:
            return heapq.heappop(self._free_rows)
        row = wanted % self.lanes
        self._free_rows.remove(row)
        heapq.heapify(self._free_rows)
        return row

    def _has_memory(self, sequence: Sequence) -> bool:
        """Whether it can run beside the others. When there are none, what is left must be prefixes held for requests
        that wait: they go, since alone it fits."""
        if self._memory.fits(sequence, self._rows, self._queue):
            return True
        if self._rows:
            return False
        for other in self._queue:
            if other is not sequence:
                other.fork = None
        return True

    def _open(self, sequence: Sequence, hit: Hit | None) -> None:
        row = self._take_row(sequence)
        now = self._clock()
        sequence.begin(row, now)
        self._prefilling[sequence.id] = sequence
        sequence.miss = self._prefixes.miss_of(sequence, hit)
        self._shrink_cache()
        try:
            cached = self._open_row(sequence, hit)
        except Exception as fault:
            self._fail(sequence, _failure("opening a row", fault))
            return
        self._tally.cached_tokens += cached
        self._tally.cache_hits += cached > 0
        self._tally.cache_misses += not cached and self._prefixes.has_cache and sequence.may_reuse
        self._deliver(sequence, sequence.start(cached))
        sequence.boundary = self._prefixes.boundary_of(sequence)
        if sequence.unprefilled >= BLOCK:
            for other in self._queue:
                self._sharing.enlist(other, (sequence,))

    def _open_row(self, sequence: Sequence, hit: Hit | None) -> int:
        """Begin with the hit, or without it where that fails; the tokens that came out of it."""
        spec = sequence.row_spec(self._mask_for(sequence.request) if self._mask_for else None)
        if hit is not None:
            try:
                self._engine.open(sequence.row, spec, hit.snapshot, hit.length)
            except InvalidRequest:
                raise
            except Exception:
                log.exception("request %s could not begin with a kept prefix", sequence.id)
                self._engine.close(sequence.row)
            else:
                return hit.length
        self._engine.open(sequence.row, spec)
        return 0

    def _prefill(self) -> None:
        """Spend one chunk's budget on prompts, oldest first; those that are ready will decode."""
        if not self._prefilling:
            return
        pace = self._pace if self._decoding else self._idle_pace
        began, before = self._clock(), self._tally.prompt_tokens
        shares = shares_of(pace.chunk, self._prefilling.values())
        while shares:
            work = [(sequence, min(share, sequence.until_stop)) for sequence, share in shares]
            self._prefill_rows(work)
            left = [(sequence, share - count) for (sequence, share), (_, count) in zip(shares, work, strict=True)]
            shares = [(sequence, share) for sequence, share in left if share and sequence.id in self._prefilling]
        for sequence in [sequence for sequence in self._prefilling.values() if sequence.is_prefilled]:
            self._decoding[sequence.id] = self._prefilling.pop(sequence.id)
        pace.took(self._tally.prompt_tokens - before, self._clock() - began)

    def _prefill_rows(self, work: list[tuple[Sequence, int]]) -> None:
        """Read so many tokens of each, none past its next stop."""
        for (sequence, count), outcome in zip(work, self._read(work), strict=True):
            wanted = sequence.request.prompt_logprobs is not None
            if wanted and not isinstance(outcome, Exception) and len(outcome) != count:
                outcome = RuntimeError(f"{len(outcome)} log probabilities for {count} tokens of the prompt")
            if isinstance(outcome, Exception):
                self._fail(sequence, _failure("reading the prompt", outcome))
                continue
            self._tally.prompt_tokens += count
            self._deliver(sequence, sequence.prefill(count, tuple(outcome) if wanted else (), self._clock()))
            self._keep_if_wanted(sequence)

    def _read(self, work: list[tuple[Sequence, int]]) -> Iterable[Collection[TokenLogprobs] | Exception]:
        """What the engine says to each: the log probabilities of the prompt, or why it failed."""
        rows = [(sequence.row, count) for sequence, count in work]
        try:
            if len(rows) == 1:
                return [self._engine.prefill(*rows[0])]
            outcomes = self._engine.prefill_many(rows)
            if len(outcomes) != len(rows):
                raise RuntimeError(f"{len(outcomes)} results for {len(rows)} rows")
        except Exception as fault:
            return [fault] * len(rows)
        return outcomes

    def _keep_if_wanted(self, sequence: Sequence) -> None:
        """Keep the state after what was prefilled, if the cache or requests that follow it want it."""
        kind = self._prefixes.kind_here(sequence)
        if kind is None and sequence.prefilled not in sequence.followers:
            return
        snapshot = self._prefixes.capture(sequence)
        self._sharing.reached(sequence, snapshot, may_hold=self._may_hold(snapshot))
        if snapshot is not None:
            self._prefixes.keep(sequence, snapshot, kind or "prompt", self._cache_room)
        self._shrink_cache()

    def _decode(self) -> None:
        """Step all rows that are ready, together."""
        ready = list(self._decoding.values())
        if not ready:
            return
        try:
            results = self._engine.step([sequence.row for sequence in ready])
            if len(results) != len(ready):
                raise RuntimeError(f"{len(results)} results for {len(ready)} rows")
        except Exception as fault:
            log.exception("the engine failed in a step of %d rows", len(ready))
            for sequence in ready:
                self._fail(sequence, _failure("generating", fault))
            return
        now = self._clock()
        for sequence, result in zip(ready, results, strict=True):
            self._take(sequence, result, now)

    def _take(self, sequence: Sequence, result: RowStep, now: float) -> None:
        """Account for one row's result."""
        if result.error is not None:
            self._fail(sequence, EngineFailure(f"The engine failed while generating: {result.error}"))
            return
        if sequence.request.logprobs is not None and result.logprobs is None:
            self._fail(sequence, EngineFailure("The engine reported no log probabilities, though they were asked for."))
            return
        if sequence.sampled == 0:
            self._tally.prompt_tokens += 1
            self._deliver(sequence, sequence.first_step(now))
        self._tally.completion_tokens += 1
        chunk = sequence.sample(result, now)
        self._deliver(sequence, chunk)
        if chunk.finish is not None:
            self._tally.finished += 1
            self._keep_last(sequence)
            self._leave_row(sequence)

    def _keep_last(self, sequence: Sequence) -> Snapshot | None:
        """Keep the state of a row that is about to go, whose own room is free for it then; gives what was kept."""
        if sequence.fed < BLOCK or not (self._prefixes.has_cache or sequence.followers):
            return None
        snapshot = self._prefixes.capture(sequence)
        if snapshot is not None:
            kind: EntryKind = "answer" if sequence.answer else "prompt"
            others = (row for row in self._rows if row is not sequence)
            self._prefixes.keep(sequence, snapshot, kind, self._memory.cache_room(others, self._queue))
        return snapshot

    @property
    def _cache_room(self) -> int | None:
        return self._memory.cache_room(self._rows, self._queue)

    def _shrink_cache(self) -> None:
        """Rows go before cached prefixes where both share one budget."""
        self._prefixes.shrink(self._cache_room)

    def _may_hold(self, snapshot: Snapshot | None) -> bool:
        return snapshot is None or self._memory.may_hold(snapshot.nbytes, self._rows, self._queue)

    def _deliver(self, sequence: Sequence, chunk: TokenChunk | None) -> None:
        if chunk is not None:
            self._news.append(Delivery(sequence.id, chunk))

    def _drop(self, id: str) -> Sequence | None:
        """Take a healthy request out, wherever it is, and keep what was computed of it; None when there is none."""
        sequence = self._queue.remove(id)
        if sequence is not None:
            self._sharing.unfollow(sequence)
            sequence.fork = None
            return sequence
        sequence = self._prefilling.get(id) or self._decoding.get(id)
        if sequence is not None:
            self._leave_row(sequence, self._keep_last(sequence))
        return sequence

    def _fail(self, sequence: Sequence, error: DragomanError) -> None:
        """End a request with an error. The state of its row is not trusted any more."""
        if self._queue.remove(sequence.id) is not None:
            self._sharing.unfollow(sequence)
            sequence.fork = None
        self._leave_row(sequence)
        self._tally.failed += 1
        self._news.append(Delivery(sequence.id, error=error))

    def _leave_row(self, sequence: Sequence, snapshot: Snapshot | None = None) -> None:
        """Close the row of a sequence and free it, if it has one; its state is passed on to those that waited."""
        if self._prefilling.pop(sequence.id, None) is None and self._decoding.pop(sequence.id, None) is None:
            return
        self._sharing.left(sequence, snapshot, may_hold=self._may_hold(snapshot))
        try:
            self._engine.close(sequence.row)
        except Exception:
            # The row counts as free all the same: open() of its next user will tell if it is not.
            log.exception("the engine failed to close row %d", sequence.row)
        heapq.heappush(self._free_rows, sequence.row)


def _failure(doing: str, fault: Exception) -> DragomanError:
    """The error a client sees for an engine's exception: itself if it is one of ours, else with its real reason."""
    if isinstance(fault, DragomanError):
        return fault
    reason = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
    return EngineFailure(f"The engine failed while {doing}: {reason}")
