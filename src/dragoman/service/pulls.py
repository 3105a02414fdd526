"""Models on their way to this machine: each is fetched once, however many clients wait for it. Knows no wire."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from dragoman.catalog.local import LocalModel
from dragoman.catalog.pull import local_name, pull
from dragoman.catalog.store import Store
from dragoman.core.errors import DragomanError, EngineFailure
from dragoman.core.model import ModelCard
from dragoman.core.names import PullRequest, PullStep, PullSteps, plain_name

_log = logging.getLogger(__name__)
_LAST = PullStep(status="success")

Arrived = Callable[[str, LocalModel], None]


class _Running:
    """One pull and what is known of it; used on the event loop."""

    def __init__(self) -> None:
        self._steps: list[PullStep] = []
        self._version = 0
        self._error: DragomanError | None = None
        self._over = False
        self._news = asyncio.Condition()

    async def told(self, step: PullStep) -> None:
        """A step; one with the status of the last takes its place."""
        if self._steps and self._steps[-1].status == step.status:
            self._steps[-1] = step
        else:
            self._steps.append(step)
        await self._tell()

    async def ended(self, error: DragomanError | None) -> None:
        """Nothing more will come."""
        self._over, self._error = True, error
        await self._tell()

    async def steps(self) -> AsyncGenerator[PullStep]:
        """All steps from the first. Raises what ended the pull."""
        at, seen = 0, -1
        last: PullStep | None = None
        while True:
            async with self._news:
                await self._news.wait_for(lambda seen=seen: self._version != seen or self._over)
                seen, fresh, over = self._version, self._steps[at:], self._over
            for step in fresh:
                if step is not last:
                    yield step
                last = step
            # The last step may still change.
            at = max(at, len(self._steps) - 1)
            if over:
                if self._error is not None:
                    raise self._error
                return

    async def _tell(self) -> None:
        self._version += 1
        async with self._news:
            self._news.notify_all()


class Pulls:
    """Runs pulls in threads of their own, which end with the process. `arrived` is called in them."""

    def __init__(self, store: Store, arrived: Arrived) -> None:
        self._store = store
        self._arrived = arrived
        self._running: dict[str, _Running] = {}

    async def run(self, request: PullRequest, served: ModelCard | None) -> PullStep | PullSteps:
        """Join the pull of that name, or begin it. A model that is served is here already."""
        steps = _present(served) if served is not None else self._join(request.name).steps()
        if not request.wait:
            return PullSteps(steps)
        last = _LAST
        async for step in steps:
            last = step
        return last

    def _join(self, name: str) -> _Running:
        key = plain_name(local_name(name))
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = _Running()
            loop = asyncio.get_running_loop()
            thread = threading.Thread(target=self._work, args=(key, name, running, loop), name="pull", daemon=True)
            thread.start()
        return running

    def _work(self, key: str, name: str, running: _Running, loop: asyncio.AbstractEventLoop) -> None:
        def tell(step: PullStep) -> None:
            _call(loop, running.told(step))

        error: DragomanError | None = None
        try:
            self._arrived(name, pull(name, self._store, tell))
        except DragomanError as problem:
            error = problem
        except Exception as problem:
            _log.exception("a pull failed")
            error = EngineFailure(f"The model could not be fetched ({type(problem).__name__}); see the server log.")
        _call(loop, self._ended(key, running, error))

    async def _ended(self, key: str, running: _Running, error: DragomanError | None) -> None:
        self._running.pop(key, None)
        await running.ended(error)


def _call(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run it on the loop; the server may be gone by now."""
    try:
        asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()


async def _present(card: ModelCard) -> AsyncGenerator[PullStep]:
    plain, size = card.digest.removeprefix("sha256:"), card.size_bytes
    yield PullStep(status="pulling manifest")
    if plain:
        yield PullStep(status=f"pulling {plain[:12]}", digest=f"sha256:{plain}", total=size, completed=size)
    for status in ("verifying sha256 digest", "writing manifest"):
        yield PullStep(status=status)
    yield _LAST
