"""Prefixes shared between slots of the real engine. A restored state is what was saved, bit for bit; an answer from one
differs from one computed whole as far as batches of other sizes differ, and no further."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.backend import LlamaCppBackend
from dragoman.backend.llamacpp.prefixes import Prefixes
from dragoman.catalog.gguf import read_gguf
from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import DragomanError, Unavailable
from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.request import CacheHints
from dragoman.core.vocabulary import Tokenizer
from dragoman.prompt.gguf import gguf_tokenizer
from tests.backend.llamacpp.rig import ask, chunks_of, running
from tests.support.lora_files import write_lora

pytestmark = [pytest.mark.anyio, pytest.mark.llamacpp]

DAYS = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday. " * 9
TAILS = (
    "January, February, March, April, May,",
    "one, two, three, four, five,",
    "A, B, C, D, E, F, G,",
    "spring, summer, autumn, winter, spring, summer, autumn,",
)
SURE = 0.7
"""Log probability by which a token must lead for us to insist on it. The same prompt in batches of other sizes moves
those of this model by up to 0.13, without any saving or restoring."""


def serving(model: Path, **options: Any) -> AbstractAsyncContextManager[LlamaCppBackend]:
    return running(model, **{"lanes": 3, "context": 512, "threads": 1, "prefix_bytes": 256 << 20} | options)


def prefixes_of(backend: LlamaCppBackend) -> Prefixes:
    prefixes = backend._prefixes
    assert prefixes is not None
    return prefixes


@pytest.fixture(scope="module")
def tokenizer(starter_gguf: Path) -> Tokenizer:
    return gguf_tokenizer(read_gguf(starter_gguf).vocabulary())


class Agents:
    """Requests that share a beginning and end each in its own way."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.days = tuple(tokenizer.encode(DAYS, add_special=False, parse_special=False))
        self._tails = [tuple(tokenizer.encode(tail, add_special=False, parse_special=False)) for tail in TAILS]

    def __call__(self, number: int, shared: int | None = None, times: int = 1, **fields: Any) -> EngineRequest:
        return ask((*self.days[:shared], *self._tails[number % 4] * times), 6, logprobs=2, **fields)


@pytest.fixture
def never_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lone answer is interrupted to save its prompt: its last token would be computed alone then."""
    monkeypatch.setattr("dragoman.backend.llamacpp.slotdesk._CHEAP", 0.0)


@pytest.fixture(scope="module")
def agent(tokenizer: Tokenizer) -> Agents:
    return Agents(tokenizer)


def logprobs_of(chunks: Sequence[TokenChunk]) -> list[TokenLogprobs]:
    return [entry for chunk in chunks for entry in chunk.logprobs]


def cached_of(chunks: Sequence[TokenChunk]) -> int:
    report = chunks[-1].report
    assert report is not None
    return report.cached_tokens


class Truth:
    """What the engine says to a prompt it computes whole, and alone."""

    def __init__(self, backend: LlamaCppBackend) -> None:
        self._backend = backend
        self._known: dict[tuple[int, ...], list[TokenLogprobs]] = {}

    async def agrees(self, request: EngineRequest, chunks: Sequence[TokenChunk]) -> int:
        """Check an answer as far as the truth is sure of itself; how many tokens that were."""
        alone = msgspec.structs.replace(request, cache=CacheHints(reuse=False))
        if request.prompt not in self._known:
            self._known[request.prompt] = logprobs_of(await chunks_of(self._backend, alone))
        sure = 0
        for ours, true in zip(logprobs_of(chunks), self._known[request.prompt], strict=True):
            first, second = true.top
            if first.logprob - second.logprob < SURE:
                break
            assert ours.chosen.id == first.id
            assert abs(ours.chosen.logprob - first.logprob) < SURE
            sure += 1
        return sure


async def restored(backend: LlamaCppBackend, agent: Agents, **fields: Any) -> list[TokenLogprobs]:
    """Answer from slots that go on, then from the same states restored elsewhere."""
    shared, before = len(agent.days), backend.stats().cache_hits
    # One tail too short to be worth saving, one that is.
    brief, long = agent(1, slot=0, **fields), agent(0, times=8, slot=0, **fields)

    async def told(request: EngineRequest, slot: int) -> tuple[int, list[TokenLogprobs]]:
        chunks = await chunks_of(backend, msgspec.structs.replace(request, slot=slot))
        return cached_of(chunks), logprobs_of(chunks)

    await chunks_of(backend, ask(agent.days, 1, slot=0, **fields))
    after_days = await told(brief, 0)
    assert after_days[0] == shared
    assert (await told(long, 0))[0] == shared
    at_its_end = await told(long, 0)
    assert at_its_end[0] == len(long.prompt) - 1
    assert backend.stats().cache_hits == before
    await chunks_of(backend, ask(range(900, 990), 1, slot=0, **fields))  # what the slot holds is saved now
    assert await told(long, 1) == at_its_end
    assert await told(brief, 2) == after_days
    assert backend.stats().cache_hits == before + 2
    return at_its_end[1]


@pytest.mark.usefixtures("never_paused")
async def test_a_restored_state_is_the_saved_one_to_the_last_bit(starter_gguf: Path, agent: Agents) -> None:
    async with serving(starter_gguf) as backend:
        await restored(backend, agent)


@pytest.mark.usefixtures("never_paused")
async def test_so_is_one_made_under_an_adapter(starter_gguf: Path, agent: Agents, tmp_path: Path) -> None:
    lora = str(write_lora(tmp_path / "one.gguf", seed=1))
    async with serving(starter_gguf, adapters=(Adapter("one", lora, 0.0),)) as backend:
        without = await restored(backend, agent)
        assert await restored(backend, agent, adapters=(AdapterScale("one", 1.0),)) != without
        plain = await chunks_of(backend, agent(0, times=8))
        assert cached_of(plain) == len(agent(0, times=8).prompt) - 1
        assert logprobs_of(plain) == without


async def test_answers_from_shared_prefixes_are_the_uncached_ones(starter_gguf: Path, agent: Agents) -> None:
    chance = random.Random(3)
    requests = [agent(number, chance.choice((None, None, 84, 42))) for number in range(14)]
    async with serving(starter_gguf) as backend:
        found = await asyncio.gather(*(_later(chance.random(), chunks_of(backend, each)) for each in requests))
        stats = backend.stats()
        assert stats.cached_tokens > stats.prompt_tokens / 2
        assert stats.cache_hits > 0
        truth = Truth(backend)
        sure = [await truth.agrees(request, chunks) for request, chunks in zip(requests, found, strict=True)]
        assert sum(sure) > 3 * len(requests)


async def test_an_engine_killed_while_it_saves_costs_no_wrong_text(starter_gguf: Path, agent: Agents) -> None:
    async with serving(starter_gguf) as backend:
        folder, pid = prefixes_of(backend).folder.path, backend.pid
        mover = prefixes_of(backend).desk._mover
        assert pid is not None
        assert mover is not None
        ask_engine, written = mover._ask, list[int]()

        async def killed(slot: Any, action: str, state: Any, *rest: Any) -> Any:
            killing = asyncio.to_thread(lambda: written.append(_kill_while_it_writes(pid, state.path)))
            return (await asyncio.gather(ask_engine(slot, action, state, *rest), killing))[0]

        mover._ask = killed  # type: ignore[method-assign]
        asked = (_eventually(backend, agent(number)) for number in range(4))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        whole = [path.stat().st_size for path in folder.glob("*.bin")]
        assert 0 < written[0] < min(whole)
        assert sum(isinstance(answer, DragomanError) for answer in answers) == 1
        assert backend.stats().restarts == 1
        truth, sure = Truth(backend), 0
        for number, answer in enumerate(answers):
            if not isinstance(answer, BaseException):
                sure += await truth.agrees(agent(number), answer)
        assert sure > 9


@pytest.mark.usefixtures("never_paused")
async def test_a_restart_finds_its_prefixes_on_disk_unless_something_is_different(
    starter_gguf: Path, tmp_path: Path, agent: Agents
) -> None:
    disk = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 30}
    async with serving(starter_gguf, **disk) as backend:
        await chunks_of(backend, agent(1))
        held = await chunks_of(backend, agent(1))
        assert cached_of(held) == len(agent(1).prompt) - 1
    async with serving(starter_gguf, **disk) as backend:
        chunks = await chunks_of(backend, agent(1))
        assert chunks[0].started == cached_of(held)
        assert logprobs_of(chunks) == logprobs_of(held)
    async with serving(starter_gguf, kv_bits=8, **disk) as backend:
        assert (await chunks_of(backend, agent(1)))[0].started == 0


async def test_a_state_that_means_nothing_to_the_engine_is_a_miss(starter_gguf: Path, agent: Agents) -> None:
    async with serving(starter_gguf) as backend:
        await asyncio.gather(*(chunks_of(backend, agent(n)) for n in range(2)))
        states = list(prefixes_of(backend).folder.path.glob("*.bin"))
        assert states
        for path in states:
            path.write_bytes(path.read_bytes()[:9000])
        again = await asyncio.gather(*(chunks_of(backend, agent(n)) for n in range(4)))
        truth = Truth(backend)
        assert sum([await truth.agrees(agent(n), chunks) for n, chunks in enumerate(again)]) > 9


def _kill_while_it_writes(pid: int, path: Path) -> int:
    """Let a process run for moments only until it has begun to write a file, then kill it; how much it had written."""
    for _ in range(100_000):
        os.kill(pid, signal.SIGSTOP)
        size = path.stat().st_size if path.exists() else 0
        if size:
            os.kill(pid, signal.SIGKILL)
            return size
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.0001)
    raise AssertionError("it was never written")


async def _later(seconds: float, doing: Any) -> Any:
    await asyncio.sleep(seconds)
    return await doing


async def _eventually(backend: LlamaCppBackend, request: EngineRequest) -> list[TokenChunk]:
    """The answer, asked for again for as long as the engine restarts."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await chunks_of(backend, request)
            except Unavailable:
                await asyncio.sleep(0.05)
