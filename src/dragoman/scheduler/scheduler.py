"""The step loop's body: which row does what next. Called on the engine thread only; knows no event loop and no wire."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import DragomanError, EngineFailure
from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.engines.base import Engine, RowStep
from dragoman.scheduler.admission import fault_of
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.queue import WaitingQueue
from dragoman.scheduler.sequence import Sequence
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


class Scheduler:
    """Feeds an engine that is loaded. Every request added ends in exactly one last delivery.

    Rows are admitted in order of arrival. One step prefills at most `limits.prefill_chunk` tokens, then decodes all
    rows that are ready. `clock` counts seconds and is the clock of `arrived`.
    """

    def __init__(
        self, engine: Engine, limits: SchedulerLimits, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.lanes = limits.lanes(engine.capabilities.lanes)
        self._engine = engine
        self._limits = limits
        self._clock = clock
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
        running = len(self._prefilling) + len(self._decoding)
        return replace(self._tally, running=running, waiting=len(self._queue))

    def add(self, request: EngineRequest, arrived: float) -> None:
        """Queue a request; one that can never run ends with an error in the next step. Raises ValueError for the id
        of a request that has not ended."""
        if request.id in self._queue or request.id in self._prefilling or request.id in self._decoding:
            raise ValueError(f"a request with the id {request.id!r} has not ended yet")
        self._tally.added += 1
        fault = fault_of(request, self._engine.context_length)
        if fault is None:
            self._queue.push(Sequence(request, arrived, self._engine.context_length))
        else:
            self._tally.failed += 1
            self._news.append(Delivery(request.id, error=fault))

    def cancel(self, id: str) -> None:
        """End a request at any stage; its row is free at once. Unknown and ended ids are ignored."""
        sequence = self._queue.remove(id) or self._leave_row(id)
        if sequence is not None:
            self._tally.cancelled += 1
            self._news.append(Delivery(id, sequence.cancel(self._clock())))

    def fail_all(self, error: DragomanError) -> None:
        """End everything with that error, in the next step's deliveries."""
        for sequence in (*self._prefilling.values(), *self._decoding.values()):
            self._fail(sequence, error)
        while self._queue:
            self._fail(self._queue.pop(), error)

    def step(self) -> list[Delivery]:
        """One unit of work; what it brought for each request, in order."""
        self._admit()
        self._prefill()
        self._decode()
        return self.settle()

    def settle(self) -> list[Delivery]:
        """What has gathered since the last step or settle; without a step only ends that took no work."""
        news, self._news = self._news, []
        return news

    def _admit(self) -> None:
        """Give free rows to those that wait longest."""
        while self._queue and self._free_rows:
            sequence = self._queue.pop()
            row = heapq.heappop(self._free_rows)
            started = sequence.begin(row, self._clock())
            self._prefilling[sequence.id] = sequence
            self._tally.cached_tokens += sequence.cached
            try:
                self._engine.open(row, sequence.row_spec)
            except Exception as fault:
                self._fail(sequence, _failure("opening a row", fault))
            else:
                self._deliver(sequence, started)

    def _prefill(self) -> None:
        """Spend one chunk's budget on prompts, oldest first; those that are ready will decode."""
        budget = self._limits.prefill_chunk
        for sequence in list(self._prefilling.values()):
            if not budget:
                break
            count = min(budget, sequence.unprefilled)
            budget -= count
            if count and not self._prefill_row(sequence, count):
                continue
            if sequence.is_prefilled:
                self._decoding[sequence.id] = self._prefilling.pop(sequence.id)

    def _prefill_row(self, sequence: Sequence, count: int) -> bool:
        try:
            self._engine.prefill(sequence.row, count)
        except Exception as fault:
            self._fail(sequence, _failure("reading the prompt", fault))
            return False
        self._tally.prompt_tokens += count
        self._deliver(sequence, sequence.prefill(count, self._clock()))
        return True

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
        wants_logprobs = sequence.request.logprobs is not None
        if wants_logprobs and result.logprobs is None:
            self._fail(sequence, EngineFailure("The engine reported no log probabilities, though they were asked for."))
            return
        if sequence.sampled == 0:
            self._tally.prompt_tokens += 1
            self._deliver(sequence, sequence.first_step(now))
        self._tally.completion_tokens += 1
        chunk = sequence.sample(result.token, result.logprobs if wants_logprobs else None, now)
        self._deliver(sequence, chunk)
        if chunk.finish is not None:
            self._tally.finished += 1
            self._leave_row(sequence.id)

    def _deliver(self, sequence: Sequence, chunk: TokenChunk | None) -> None:
        if chunk is not None:
            self._news.append(Delivery(sequence.id, chunk))

    def _fail(self, sequence: Sequence, error: DragomanError) -> None:
        self._leave_row(sequence.id)
        self._tally.failed += 1
        self._news.append(Delivery(sequence.id, error=error))

    def _leave_row(self, id: str) -> Sequence | None:
        """Close the row of a request and free it; None when it has none."""
        sequence = self._prefilling.pop(id, None) or self._decoding.pop(id, None)
        if sequence is None:
            return None
        try:
            self._engine.close(sequence.row)
        except Exception:
            # The row counts as free all the same: open() of its next user will tell if it is not.
            log.exception("the engine failed to close row %d", sequence.row)
        heapq.heappush(self._free_rows, sequence.row)
        return sequence


def _failure(doing: str, fault: Exception) -> DragomanError:
    """The error a client sees for an engine's exception: itself if it is one of ours, else with its real reason."""
    if isinstance(fault, DragomanError):
        return fault
    reason = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
    return EngineFailure(f"The engine failed while {doing}: {reason}")
