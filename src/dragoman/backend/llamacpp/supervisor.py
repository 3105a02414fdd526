"""Keeps an engine running: notices its end, starts it again, gives up when that does not help. Knows no requests."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct

from dragoman.backend.llamacpp.engine import RunningEngine
from dragoman.backend.llamacpp.launch import Launcher
from dragoman.core.errors import DragomanError, EngineFailure, Unavailable
from dragoman.core.operations import Health

State = Literal["new", "loading", "ok", "restarting", "failed", "stopped"]


class RestartPolicy(Struct, frozen=True):
    """At most `limit` starts within `window` seconds, the first after `first_delay` seconds, each later one after
    `factor` times the delay before it."""

    limit: int = 3
    window: float = 60.0
    first_delay: float = 0.1
    factor: float = 5.0
    patient_delay: float = 2.0


class Listener(Protocol):
    """Who wants to know."""

    async def engine_up(self, engine: RunningEngine) -> None:
        """It answers. Raising an error counts as a failed start."""
        ...

    def engine_down(self, error: DragomanError) -> None:
        """It is gone; what was running in it is lost."""
        ...

    def engine_failed(self, error: DragomanError) -> None:
        """It will not come back."""
        ...


class Supervisor:
    """One engine, whichever process it is in at the moment. Time and sleep are parameters for tests."""

    def __init__(
        self,
        launcher: Launcher,
        listener: Listener,
        policy: RestartPolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._launcher = launcher
        self._listener = listener
        self._policy = policy or RestartPolicy()
        self._clock = clock
        self._sleep = sleep
        self._engine: RunningEngine | None = None
        self._watch: asyncio.Task[None] | None = None
        self._starts: deque[float] = deque()
        self._load_seconds = 1.0
        self._detail = ""
        self.state: State = "new"
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The engine's process, where there is one of ours."""
        return self._engine.pid if self._engine else None

    async def start(self) -> None:
        """Start the engine. Raises EngineFailure, after which it may be called again."""
        self.state = "loading"
        try:
            self._engine = await self._launch()
        except BaseException as error:
            self.state = "failed"
            self._detail = error.message if isinstance(error, DragomanError) else "Loading was interrupted."
            raise
        self.state = "ok"
        self._watch_over(self._engine)

    async def replace(self, launcher: Launcher) -> None:
        """Start what `launcher` gets running in place of the engine of now, which must be idle; meanwhile the state
        stays ok. When that fails, raises why, and the old launcher's engine is on its way back."""
        self.require()
        self._listener.engine_down(Unavailable("The llama.cpp engine is being restarted.", retry_after=1))
        await self._leave()
        before, self._launcher = self._launcher, launcher
        try:
            engine = await self._launch()
        except BaseException as error:
            self._launcher = before
            if self.state == "ok":
                self.state = "restarting"
                self._detail = error.message if isinstance(error, DragomanError) else ""
                self._watch_over(None)
            raise
        if self.state != "ok":  # Stopped meanwhile.
            await engine.stop()
            self.require()
        self._engine = engine
        self._watch_over(engine)

    def close(self) -> None:
        """Take no more requests; `stop` will follow."""
        self.state = "stopped"

    async def stop(self) -> None:
        """End it for good. Safe to call twice."""
        self.close()
        await self._leave()

    async def _leave(self) -> None:
        """Stop watching, then stop what was watched."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.stop()

    def require(self) -> None:
        """Raises Unavailable unless requests can be taken now."""
        match self.state:
            case "ok":
                return
            case "failed":
                raise Unavailable(f"The llama.cpp engine is down. {self._detail}", remedy="Restart the server.")
            case "restarting":
                raise Unavailable("The llama.cpp engine is being restarted.", retry_after=self._retry_after())
            case "loading":
                raise Unavailable("The model is loading.", retry_after=self._retry_after())
            case _:
                raise Unavailable("The llama.cpp engine is not running.", retry_after=self._retry_after())

    def health(self) -> Health:
        """The state in the words of the operations."""
        match self.state:
            case "ok":
                return Health("ok")
            case "failed":
                return Health("failed", self._detail)
            case "stopped":
                return Health("draining", "The engine has been stopped.")
            case "restarting":
                return Health("loading", f"The engine is being restarted. {self._detail}")
            case _:
                return Health("loading", "The model is loading.")

    async def _launch(self) -> RunningEngine:
        began = self._clock()
        engine = await self._launcher.launch()
        try:
            await self._listener.engine_up(engine)
        except BaseException:
            await engine.stop()
            raise
        self._load_seconds = self._clock() - began
        return engine

    def _watch_over(self, engine: RunningEngine | None) -> None:
        self._watch = asyncio.create_task(self._keep_running(engine), name="llamacpp-supervisor")

    async def _keep_running(self, engine: RunningEngine | None) -> None:
        """None: there is none at the moment."""
        try:
            current = engine or await self._restart()
            while current is not None:
                await self._end_of(current)
                current = await self._restart()
        except Exception as error:  # A fault of ours must not leave requests waiting for ever.
            self._give_up(f"Watching it failed: {error!r}.")

    async def _end_of(self, engine: RunningEngine) -> None:
        what = await engine.gone()
        self.state = "restarting"
        self._detail = f"Its process {what}." if engine.pid is not None else f"It {what}."
        self._listener.engine_down(EngineFailure(f"The llama.cpp engine {what} while it was answering."))
        self._engine = None
        await engine.stop()

    async def _restart(self) -> RunningEngine | None:
        while (delay := self._next_delay()) is not None:
            await self._sleep(delay)
            try:
                self._engine = await self._launch()
            except DragomanError as error:
                self._detail = error.message
                continue
            self.restarts += 1
            self.state = "ok"
            return self._engine
        starts, seconds = self._policy.limit, self._policy.window
        self._give_up(f"It was started {starts} times within {seconds:g} seconds without success. {self._detail}")
        return None

    def _give_up(self, why: str) -> None:
        self.state = "failed"
        self._detail = why
        self._listener.engine_failed(Unavailable(f"The llama.cpp engine is down. {why}", remedy="Restart the server."))

    def _next_delay(self) -> float | None:
        """Seconds to wait before the next start; None to give up."""
        policy = self._policy
        if self._launcher.patient:
            return policy.patient_delay
        now = self._clock()
        while self._starts and now - self._starts[0] > policy.window:
            self._starts.popleft()
        tried = len(self._starts)
        if tried >= policy.limit:
            return None
        self._starts.append(now)
        return policy.first_delay * policy.factor**tried

    def _retry_after(self) -> int:
        tried = len(self._starts)
        delay = self._policy.first_delay * self._policy.factor ** max(0, tried - 1)
        return max(1, math.ceil(self._load_seconds + delay))
