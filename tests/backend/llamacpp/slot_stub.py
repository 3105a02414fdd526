"""A stub server whose slots hold tokens, take time to prefill, can be saved and restored; and a backend before it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.core.exchange import EngineRequest
from tests.backend.llamacpp.rig import QUICK, StubEngine, StubLauncher, chunks_of, ids_of
from tests.support.llama_stub import Stub

MODEL = "stub.gguf"


@dataclass
class SlotStub(Stub):
    """`prefill` seconds for each token; `fault` is what saving suffers from."""

    folder: str = ""
    prefill: float = 0.0
    moving: float = 0.0
    fault: str = ""
    contents: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    computed: list[int] = field(default_factory=list)
    """Prompt tokens computed by each request, in order of arrival in a slot."""
    moves: list[str] = field(default_factory=list)
    saving: asyncio.Event = field(default_factory=asyncio.Event)
    used: list[int] = field(default_factory=list)
    _locks: dict[int, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _cached: dict[Any, int] = field(default_factory=dict)

    async def _answer(self, route: str, body: Any, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        path = route.split(" ")[1]
        if path.startswith("/slots/"):
            number, action = path.removeprefix("/slots/").split("?action=")
            async with self._locks[int(number)]:
                while self.fault == "hang" and not writer.transport.is_closing():
                    self.saving.set()
                    await asyncio.sleep(0.01)
                return await self._json(writer, *await self._move(int(number), action, body.get("filename", "")))
        return await super()._answer(route, body, headers, writer)

    async def _move(self, number: int, action: str, name: str) -> tuple[int, dict[str, Any]]:
        self.moves.append(f"{action} {number}")
        path = Path(self.folder) / name
        if action == "erase":
            erased, self.contents[number] = len(self.contents[number]), []
            return 200, {"id_slot": number, "n_erased": erased}
        refusal = {"error": {"code": 400, "message": f"Unable to {action} slot", "type": "invalid_request_error"}}
        if action == "save":
            data = json.dumps(self.contents[number]).encode()
            self.saving.set()
            if self.fault == "partial":
                path.write_bytes(data[:5])
                return 200, {"n_saved": len(self.contents[number]), "n_written": len(data)}
            if self.fault == "refused":
                return 400, refusal
            if self.fault == "unable":
                return 501, {"error": {"code": 501, "message": "no", "type": "not_supported_error"}}
            await asyncio.sleep(self.moving)
            path.write_bytes(data)
            return 200, {"n_saved": len(self.contents[number]), "n_written": len(data), "timings": {"save_ms": 1.0}}
        await asyncio.sleep(self.moving)
        try:
            self.contents[number] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            self.contents[number] = []
            return 400, refusal
        return 200, {"n_restored": len(self.contents[number])}

    async def _complete(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "grammar" in body:
            return await super()._complete(body, writer)
        number, prompt = body.get("id_slot", 0), body["prompt"]
        async with self._locks[number]:
            self.used.append(number)
            content = self.contents[number] if body.get("cache_prompt", True) else []
            cached = min(_shared(content, prompt), len(prompt) - 1)
            self.computed.append(len(prompt) - cached)
            self._cached[asyncio.current_task()] = cached
            self.contents[number] = prompt[:cached]
            return await super()._complete(body, writer)

    async def _frames(self, body: dict[str, Any], tokens: list[int], number: int) -> AsyncIterator[dict[str, Any]]:
        cached, slot, prompt = self._cached[asyncio.current_task()], body.get("id_slot", 0), body["prompt"]
        async for frame in super()._frames(body, tokens, number):
            progress = frame.get("prompt_progress")
            if progress is not None:
                progress |= {"cache": cached, "processed": max(cached, progress["processed"])}
                if progress["processed"] == len(prompt):
                    await asyncio.sleep(self.prefill * (len(prompt) - cached))
                    self.contents[slot] = list(prompt)
                    progress["time_ms"] = 1000 * self.prefill * (len(prompt) - cached)
            else:
                self.contents[slot].append(frame["tokens"][0])
            yield frame

    async def _event(self, writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
        if "timings" in data:
            data["timings"]["cache_n"] = self._cached[asyncio.current_task()]
        await super()._event(writer, data)


class SlotLauncher(StubLauncher):
    """Starts one slot stub after another; all save to the folder they are told."""

    def __init__(self, folder: str, **fields: Any) -> None:
        super().__init__(Stub(), folder)
        self.told = ""
        self.fields = fields

    @property
    def stub(self) -> SlotStub:
        stub = self.engine.stub
        assert isinstance(stub, SlotStub)
        return stub

    async def launch(self) -> StubEngine:
        await self.gate.wait()
        socket = str(Path(self._folder) / f"{len(self.engines)}.sock")
        stub = SlotStub(folder=self.told, **self.fields)
        await stub.listen(socket=socket)
        self.engines.append(StubEngine(stub, socket))
        return self.engine


@asynccontextmanager
async def sharing(
    options: dict[str, Any] | None = None, **fields: Any
) -> AsyncIterator[tuple[LlamaCppBackend, SlotLauncher]]:
    """A started backend that shares prefixes; `fields` are those of the stub."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = SlotLauncher(folder, **{"slots": 4, "prefill": 0.0003} | fields)
        model = Path(folder) / MODEL
        model.write_text("a model")
        given = {"model": str(model), "lanes": 4, "context": 2048, "prefix_bytes": 1 << 20} | (options or {})
        backend = LlamaCppBackend(LlamaCppOptions(**given), launcher=launcher, policy=QUICK)
        launcher.told = backend._options.slot_folder
        await backend.start()
        try:
            yield backend, launcher
        finally:
            await backend.stop()


def expected(request: EngineRequest) -> list[int]:
    """What the stub's plan says to a prompt."""
    return [65 + at % 26 for at in range(len(request.prompt), len(request.prompt) + request.max_tokens)]


async def cached_by(backend: LlamaCppBackend, request: EngineRequest) -> int:
    """Answer it, check the text, and tell how many prompt tokens were not computed."""
    chunks = await chunks_of(backend, request)
    assert ids_of(chunks) == expected(request)
    report = chunks[-1].report
    assert report is not None
    assert chunks[0].started == report.cached_tokens
    return report.cached_tokens


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
