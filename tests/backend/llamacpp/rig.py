"""A backend in front of a stub server, without a process."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.endpoint import Endpoint
from dragoman.backend.llamacpp.supervisor import RestartPolicy
from dragoman.core.errors import EngineFailure, Unavailable
from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.core.sampling import SamplingSpec
from tests.support.llama_stub import Stub

QUICK = RestartPolicy(limit=3, window=60.0, first_delay=0.01, factor=1.0, patient_delay=0.01)


class StubEngine:
    """A running stub, killed by `crash`."""

    build = "stub"
    pid = 4242

    def __init__(self, stub: Stub, socket: str) -> None:
        self.stub = stub
        self.endpoint = Endpoint(socket=socket)
        self.stopped = False
        self._gone = asyncio.Event()

    async def gone(self) -> str:
        await self._gone.wait()
        return "was killed by SIGKILL"

    async def crash(self) -> None:
        await self.stub.close()
        self._gone.set()

    async def stop(self) -> None:
        self.stopped = True
        await self.stub.close()


class StubLauncher:
    """Starts stubs: the first is `stub`, later ones are new with the same fields. `refusals` starts fail first."""

    patient = False

    def __init__(self, stub: Stub, folder: str) -> None:
        self._make = stub
        self._folder = folder
        self.engines: list[StubEngine] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False

    @property
    def engine(self) -> StubEngine:
        return self.engines[-1]

    async def launch(self) -> StubEngine:
        await self.gate.wait()
        if self.broken:
            raise EngineFailure("The stub does not start.")
        old = self._make
        stub = old if not self.engines else Stub(plan=old.plan, n_ctx=old.n_ctx, slots=old.slots, step=old.step)
        socket = str(Path(self._folder) / f"{len(self.engines)}.sock")
        await stub.listen(socket=socket)
        self.engines.append(StubEngine(stub, socket))
        return self.engine


@asynccontextmanager
async def serving(stub: Stub | None = None, **options: Any) -> AsyncIterator[tuple[LlamaCppBackend, StubLauncher]]:
    """A started backend and the launcher behind it."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = StubLauncher(stub or Stub(), folder)
        settings = LlamaCppOptions(**({"model": "stub.gguf", "lanes": 2, "context": 2048} | options))
        backend = LlamaCppBackend(settings, launcher=launcher, policy=QUICK)
        await backend.start()
        try:
            yield backend, launcher
        finally:
            await backend.stop()


@asynccontextmanager
async def running(model: Path, **options: Any) -> AsyncIterator[LlamaCppBackend]:
    """A started backend with the real engine."""
    made = LlamaCppBackend(LlamaCppOptions(model=str(model), **options))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def ask(prompt: Sequence[int] = (1,), max_tokens: int = 8, **fields: Any) -> EngineRequest:
    given: dict[str, Any] = {"sampling": SamplingSpec(temperature=0.0)} | fields
    return EngineRequest(id="r", prompt=tuple(prompt), max_tokens=max_tokens, **given)


async def chunks_of(backend: LlamaCppBackend, request: EngineRequest) -> list[TokenChunk]:
    return [chunk async for chunk in await backend.submit(request)]


def ids_of(chunks: Sequence[TokenChunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.tokens]


async def eventually_ids(backend: LlamaCppBackend, request: EngineRequest) -> list[int]:
    """The answer's ids, asked for again for as long as the engine restarts."""
    async with asyncio.timeout(30):
        while True:
            try:
                return ids_of(await chunks_of(backend, request))
            except Unavailable:
                await asyncio.sleep(0.02)
