"""The engine's thread: it loads, steps and unloads the engine, and nobody else ever touches it.

Commands come in through a queue, reports leave through one function; both are plain messages. Knows no streams and no
event loop.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import DragomanError, EngineFailure, Unavailable
from dragoman.core.exchange import EngineRequest
from dragoman.core.model import Capabilities
from dragoman.engines.base import Engine
from dragoman.scheduler.scheduler import Delivery, Scheduler
from dragoman.scheduler.tally import Tally

log = logging.getLogger(__name__)


class Submit(Struct, frozen=True):
    """Run a request; `arrived` in seconds of time.perf_counter."""

    request: EngineRequest
    arrived: float


class Cancel(Struct, frozen=True):
    """Drop a request, if it still runs."""

    id: str


class Leave(Struct, frozen=True):
    """Unload the engine and end the thread."""


class Do(Struct, frozen=True):
    """Call a function with the scheduler, between two steps. It must not raise."""

    work: Callable[[Scheduler], None]


Command = Submit | Cancel | Do | Leave


class Loaded(Struct, frozen=True):
    """The engine is ready; `capabilities.lanes` is what the scheduler uses of it."""

    capabilities: Capabilities
    context_length: int
    build: str


class Stepped(Struct, frozen=True):
    """News of one step for all requests, and the counts after it."""

    deliveries: list[Delivery]
    tally: Tally


class Ended(Struct, frozen=True):
    """The engine is gone and the thread is about to end; `error` tells why, None when it was asked to."""

    error: DragomanError | None


Report = Loaded | Stepped | Ended


class EngineRoom:
    """One daemon thread around one engine.

    All three functions are called on that thread: `make_engine`, then `make_scheduler` with the loaded engine, and
    `report`, in order, with Loaded, any number of Stepped, and always Ended as the last.
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        make_scheduler: Callable[[Engine], Scheduler],
        report: Callable[[Report], None],
        name: str,
    ) -> None:
        self._make_engine = make_engine
        self._make_scheduler = make_scheduler
        self._report = report
        # SimpleQueue, because its put may be interrupted by the garbage collector putting something itself.
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"engine-{name}", daemon=True)

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def send(self, command: Command) -> None:
        """Queue a command; returns at once. Commands sent after Leave are never read."""
        self._inbox.put(command)

    def join(self, timeout: float) -> bool:
        """Wait for the thread, seconds at most; whether it is gone (or never was)."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        error: DragomanError | None = None
        try:
            self._work()
        except DragomanError as fault:
            error = fault
        except BaseException as fault:
            # Whatever it is, the streams must hear of it: the thread has nobody above it to raise to.
            log.exception("the engine thread died")
            error = EngineFailure(f"The engine thread died: {_described(fault)}")
        finally:
            self._report(Ended(error))

    def _work(self) -> None:
        engine = self._load()
        try:
            scheduler = self._make_scheduler(engine)
            capabilities = replace(engine.capabilities, lanes=scheduler.lanes)
            self._report(Loaded(capabilities, engine.context_length, engine.build))
            try:
                self._serve(scheduler)
            finally:
                # Snapshots belong to this thread and must not outlive it in some traceback.
                scheduler.close()
        finally:
            _unload(engine)

    def _load(self) -> Engine:
        try:
            engine = self._make_engine()
        except Exception as fault:
            raise _load_failure(fault) from fault
        try:
            engine.load()
        except Exception as fault:
            _unload(engine)
            raise _load_failure(fault) from fault
        return engine

    def _serve(self, scheduler: Scheduler) -> None:
        """Step while there is work, sleep while there is none, until told to leave."""
        while self._obey(scheduler):
            ends = scheduler.settle()
            if ends:
                # Told before the step, which may be long: a cancelled request's row is free by now.
                self._report(Stepped(ends, scheduler.tally))
            self._report(Stepped(scheduler.step(), scheduler.tally))
        scheduler.fail_all(Unavailable("The server is shutting down.", retry_after=1))
        self._report(Stepped(scheduler.settle(), scheduler.tally))

    def _obey(self, scheduler: Scheduler) -> bool:
        """Carry out all commands that are there, waiting for one when there is nothing else to do; False to leave."""
        while True:
            try:
                command = self._inbox.get(block=not scheduler.has_work)
            except queue.Empty:
                return True
            match command:
                case Submit(request, arrived):
                    scheduler.add(request, arrived)
                case Cancel(id):
                    scheduler.cancel(id)
                case Do(work):
                    work(scheduler)
                case Leave():
                    return False


def now() -> float:
    """The clock of `Submit.arrived`."""
    return time.perf_counter()


def _unload(engine: Engine) -> None:
    """Free the engine as far as it can be freed; a failure here must not hide the reason it is unloaded for."""
    with contextlib.suppress(Exception):
        engine.unload()


def _load_failure(fault: Exception) -> DragomanError:
    if isinstance(fault, EngineFailure):
        return fault
    return EngineFailure(f"The engine could not be loaded: {_described(fault)}")


def _described(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
