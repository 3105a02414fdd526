"""An engine of seam 2 behind seam 1: requests on the event loop, the engine on its own thread. Knows no dialect."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from dragoman.backend.base import BackendStats, TokenStream
from dragoman.backend.local.acts import RowActs
from dragoman.backend.local.room import Cancel, Ended, EngineRoom, Leave, Loaded, Report, Stepped, Submit, now
from dragoman.backend.local.rows import RowView
from dragoman.backend.local.stream import LocalTokenStream, Mailbox
from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.errors import (
    DragomanError,
    EngineFailure,
    InvalidField,
    InvalidRequest,
    NotSupported,
    Overloaded,
    Unavailable,
    UnsupportedField,
)
from dragoman.core.exchange import EngineReport, EngineRequest
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.slots import Slot, SlotActed, SlotAction
from dragoman.core.vectors import EmbedWork, RerankWork, Scores, Vector
from dragoman.engines.base import Engine
from dragoman.scheduler.admission import fault_of
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.scheduler import Delivery, MaskFor, Scheduler
from dragoman.scheduler.tally import Tally

log = logging.getLogger(__name__)

State = Literal["new", "loading", "ready", "stopping", "stopped", "failed"]

_FIRST_GUESS_SECONDS = 2.0
_LONGEST_RETRY_SECONDS = 60
_WEIGHT_OF_NEWEST = 0.2


class LocalBackend:
    """Serves one engine; see backend.base.Backend.

    `make_engine` and `mask_for`, which gives the constraint of a request, are called on the engine thread. Prefixes are
    kept in `cache_budget` bytes, none with 0. `stop_timeout` is how many seconds `stop` waits for the thread, which
    cannot be interrupted within a step or while it loads; it is a daemon and dies with the process.
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        limits: SchedulerLimits | None = None,
        *,
        cache_budget: int = 0,
        mask_for: MaskFor | None = None,
        name: str = "local",
        stop_timeout: float = 10.0,
    ) -> None:
        self._limits = limits or SchedulerLimits()
        self._cache_budget = cache_budget
        self._mask_for = mask_for
        self._room = EngineRoom(make_engine, self._make_scheduler, self._post, name)
        self._stop_timeout = stop_timeout
        self._state: State = "new"
        self._fault: DragomanError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loaded: Loaded | None = None
        self._load_settled = asyncio.Event()
        self._thread_ended = asyncio.Event()
        self._reports: deque[Report] = deque()
        self._is_reading_due = False
        self._mailboxes: dict[str, Mailbox] = {}
        self._open = 0
        self._submitted = 0
        self._tally = Tally()
        self._rows = RowView()
        self._acts = RowActs(self._rows, self._room.send, caching=cache_budget > 0)
        self._seconds_per_request = _FIRST_GUESS_SECONDS

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do, with the lanes in use and masks where there are any. Raises Unavailable before it is
        loaded."""
        able = self._facts.capabilities
        return able if self._mask_for is None else replace(able, grammar=True)

    @property
    def context_length(self) -> int:
        """Tokens of one request, prompt and answer. Raises Unavailable before the engine is loaded."""
        return self._facts.context_length

    @property
    def build(self) -> str:
        """Engine and version. Raises Unavailable before the engine is loaded."""
        return self._facts.build

    async def start(self) -> None:
        """Load the engine. Raises EngineFailure with its reason, Unavailable when stopped meanwhile."""
        if self._state == "new":
            self._state = "loading"
            self._loop = asyncio.get_running_loop()
            self._room.start()
        await self._load_settled.wait()
        if self._state != "ready":
            raise self._fault or Unavailable("The engine was stopped.")

    async def stop(self) -> None:
        """End all streams with Unavailable, free the engine, join its thread."""
        if self._state == "new":
            self._state = "stopped"
            self._load_settled.set()
            self._thread_ended.set()
        if self._state in ("loading", "ready"):
            self._state = "stopping"
            self._room.send(Leave())
            self._load_settled.set()
            self._fail_streams(lambda: Unavailable("The server is shutting down.", retry_after=1))
        try:
            await asyncio.wait_for(self._thread_ended.wait(), self._stop_timeout)
        except TimeoutError:
            log.error("the engine did not stop within %g seconds; its thread is left behind", self._stop_timeout)
            return
        self._room.join(timeout=1.0)

    async def submit(self, request: EngineRequest) -> TokenStream:
        """Queue a request; never waits. Raises as backend.base.Backend.submit says."""
        self._require_ready()
        self._require_fit(request)
        if self._open >= self.capabilities.lanes + self._limits.max_waiting:
            raise self._overloaded()
        mailbox = self._mailboxes[request.id] = Mailbox()
        self._rows.note(request)
        self._open += 1
        self._submitted += 1
        self._room.send(Submit(request, now()))
        cancel = functools.partial(self._cancel, request.id, mailbox)
        return LocalTokenStream(mailbox, cancel, asyncio.get_running_loop())

    async def embed(self, work: EmbedWork) -> tuple[tuple[Vector, ...], ...]:
        """Raises NotSupported: an engine of rows generates only; see `backend.local.encoder`."""
        raise NotSupported(f"The engine {self.build} makes no embeddings of this model.")

    async def rerank(self, work: RerankWork) -> Scores:
        """Raises NotSupported, as `embed` does."""
        raise NotSupported(f"The engine {self.build} cannot rerank with this model.")

    async def slots(self) -> tuple[Slot, ...]:
        """Its rows, which are what others call slots."""
        facts = self._facts
        return self._rows.slots(facts.capabilities.lanes, facts.context_length)

    async def act(self, action: SlotAction, file: Path | None) -> SlotActed:
        """See `backend.local.acts`. Raises Unavailable when the engine does not run."""
        self._require_ready()
        return await self._acts.act(action, self.capabilities.lanes, file)

    def health(self) -> Health:
        """`failed` with the reason once the engine or its thread is gone for another reason than `stop`."""
        match self._state:
            case "ready":
                return Health("ok")
            case "new" | "loading":
                return Health("loading")
            case "stopping" | "stopped":
                return Health("draining")
            case "failed":
                return Health("failed", self._fault.message if self._fault else "")

    def stats(self) -> BackendStats:
        """Counts as of the last step whose news this loop has read; requests the engine has not seen yet wait."""
        tally = self._tally
        return BackendStats(
            running=tally.running,
            waiting=tally.waiting + self._submitted - tally.added,
            lanes=self._loaded.capabilities.lanes if self._loaded else 1,
            finished=tally.finished,
            cancelled=tally.cancelled,
            failed=tally.failed,
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            completion_tokens=tally.completion_tokens,
            cache_bytes=tally.cache_bytes,
            cache_entries=tally.cache_entries,
            cache_hits=tally.cache_hits,
            cache_misses=tally.cache_misses,
            cache_evicted=tally.cache_evicted,
        )

    def _make_scheduler(self, engine: Engine) -> Scheduler:
        """Runs on the engine thread, where the cache lives and dies."""
        cache = RamPrefixCache(self._cache_budget) if self._cache_budget > 0 else None
        return Scheduler(engine, self._limits, cache, mask_for=self._mask_for)

    @property
    def _facts(self) -> Loaded:
        if self._loaded is None:
            raise Unavailable("The model is not loaded.", retry_after=1)
        return self._loaded

    def _require_ready(self) -> None:
        match self._state:
            case "ready":
                return
            case "new" | "loading":
                raise Unavailable("The model is still loading.", retry_after=1)
            case "stopping" | "stopped":
                raise Unavailable("The server is shutting down.", retry_after=1)
            case "failed":
                raise Unavailable(f"The engine is down. {self._fault.message if self._fault else ''}".rstrip())

    def _require_fit(self, request: EngineRequest) -> None:
        """Refuse what this engine cannot do, and an id that is still in use."""
        fault = fault_of(request, self.context_length)
        if fault is not None:
            raise fault
        if request.id in self._mailboxes:
            raise InvalidRequest(f"A request with the id '{request.id}' is already running.")
        if request.grammar is not None and not self.capabilities.grammar:
            raise UnsupportedField(f"The engine {self.build} cannot constrain its output.")
        if request.adapters:
            raise UnsupportedField(f"The engine {self.build} has no adapters mounted.", field="adapters")
        if request.images:
            raise NotSupported(f"The engine {self.build} sees no images.")
        self._require_logprobs(request.logprobs, "logprobs")
        self._require_logprobs(request.prompt_logprobs, "prompt_logprobs")

    def _require_logprobs(self, wanted: int | None, field: str) -> None:
        most = self.capabilities.logprobs
        if wanted is None:
            return
        if most is None:
            raise UnsupportedField(f"The engine {self.build} reports no log probabilities.", field=field)
        if not 0 <= wanted <= most:
            raise InvalidField(f"Between 0 and {most} log probabilities can be reported.", field=field)

    def _overloaded(self) -> Overloaded:
        """The queue is full; a place is free again when one request, of those that run side by side, ends."""
        seconds = math.ceil(self._seconds_per_request / self.capabilities.lanes)
        return Overloaded(
            f"All {self.capabilities.lanes} lanes are busy and {self._limits.max_waiting} requests are waiting.",
            remedy="Try again later.",
            retry_after=min(max(seconds, 1), _LONGEST_RETRY_SECONDS),
        )

    def _cancel(self, id: str, mailbox: Mailbox) -> None:
        """Drop a request on the consumer's wish; its id stays in use until the engine has let go of it."""
        was_open = not mailbox.is_closed
        mailbox.abandon()
        if was_open:
            self._open -= 1
            self._room.send(Cancel(id))

    def _post(self, report: Report) -> None:
        """Hand a report to the loop. Runs on the engine thread; wakes the loop at most once until it has read.

        The flag is raised after the append here and lowered before the reading there, so no report is left unread.
        """
        self._reports.append(report)
        if self._loop is None:
            return
        # A loop may close with a reading due that never comes, so a flag that is up proves nothing then.
        if self._is_reading_due and not self._loop.is_closed():
            return
        self._is_reading_due = True
        try:
            self._loop.call_soon_threadsafe(self._read_reports)
        except RuntimeError:
            # The loop was closed without stop(): nobody is left to work for.
            self._room.send(Leave())

    def _read_reports(self) -> None:
        self._is_reading_due = False
        while self._reports:
            match self._reports.popleft():
                case Stepped(deliveries, tally):
                    self._tally = tally
                    for delivery in deliveries:
                        self._deliver(delivery)
                case Loaded() as loaded:
                    self._take_over(loaded)
                case Ended(error):
                    self._settle_end(error)

    def _deliver(self, delivery: Delivery) -> None:
        mailbox = self._mailboxes.get(delivery.id)
        if mailbox is None:
            return
        was_open = not mailbox.is_closed
        self._rows.take(delivery.id, delivery.chunk)
        if delivery.error is not None:
            mailbox.fail(delivery.error)
        else:
            mailbox.put(delivery.chunk)
        if delivery.is_last:
            del self._mailboxes[delivery.id]
            self._rows.end(delivery.id)
            self._acts.changed()
            self._open -= was_open
            if delivery.chunk.report is not None:
                self._learn(delivery.chunk.report)

    def _learn(self, report: EngineReport) -> None:
        """Follow how long requests hold a lane, for `retry_after`."""
        seconds = (report.prompt_ms + report.predicted_ms) / 1000
        self._seconds_per_request += _WEIGHT_OF_NEWEST * (seconds - self._seconds_per_request)

    def _take_over(self, loaded: Loaded) -> None:
        self._loaded = loaded
        if self._state == "loading":
            self._state = "ready"
            self._load_settled.set()

    def _settle_end(self, error: DragomanError | None) -> None:
        """The thread is gone: on purpose after `stop`, else the engine failed and every stream must hear of it."""
        if self._state == "stopping":
            self._state = "stopped"
        else:
            fault = self._fault = error or EngineFailure("The engine thread ended.")
            self._state = "failed"
            self._fail_streams(lambda: EngineFailure(fault.message))
        left = self._tally.running + self._tally.waiting + self._submitted - self._tally.added
        self._tally = replace(
            self._tally,
            running=0,
            waiting=0,
            cache_bytes=0,
            cache_entries=0,
            added=self._submitted,
            failed=self._tally.failed + left,
        )
        self._rows.clear()
        self._acts.fail()
        self._load_settled.set()
        self._thread_ended.set()

    def _fail_streams(self, make_error: Callable[[], DragomanError]) -> None:
        """End all streams, each with an error of its own, since raising changes an error."""
        for mailbox in self._mailboxes.values():
            mailbox.fail(make_error())
        self._mailboxes.clear()
        self._open = 0
