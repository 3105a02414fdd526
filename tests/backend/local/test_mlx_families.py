"""The whole engine room on real MLX models: what a request says depends on nothing but the request.

Tiny random checkpoints of several cache families, float32, many requests at once that share prefixes, a cache so small
that it evicts all the time, clients that leave. Cases 22, 30, 32 and 33 of the faults other servers shipped.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.exchange import EngineRequest
from dragoman.core.request import CacheHints
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.engine import MlxEngine, MlxOptions
from dragoman.scheduler.limits import SchedulerLimits

pytestmark = [pytest.mark.mlx, pytest.mark.anyio]
pytest.importorskip("mlx.core")

from tests.support.checkpoints import write_checkpoint  # noqa: E402 - needs MLX

# Dense, grouped queries, mixture of experts, hybrid; sliding window and recurrent ones compile slowly.
FAMILIES = [
    "llama_tied",
    "qwen3",
    "qwen3_moe",
    "lfm2",
    pytest.param("gemma3_text", marks=pytest.mark.slow),
    pytest.param("mamba", marks=pytest.mark.slow),
]
PREFIX = tuple(10 + (7 * index) % 200 for index in range(96))
BUDGET = 300_000


@asynccontextmanager
async def served(folder: Path, *, budget: int, lanes: int = 4) -> AsyncIterator[LocalBackend]:
    options = MlxOptions(path=str(folder), lanes=lanes)
    backend = LocalBackend(lambda: MlxEngine(options), SchedulerLimits(prefill_chunk=32), cache_budget=budget)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


def asked(number: int, *, reuse: bool = True) -> EngineRequest:
    """Request `number`: its prompt and seed are its own, its beginning is shared with others."""
    dice = random.Random(number)
    own = tuple(dice.randrange(10, 300) for _ in range(dice.randint(1, 40)))
    prompt = PREFIX[: dice.choice((0, 40, 64, 96))] + own
    warm = dice.random() < 0.5
    return EngineRequest(
        id=f"{number}-{reuse}-{dice.random()}",
        prompt=prompt,
        max_tokens=dice.randint(2, 12),
        sampling=SamplingSpec(temperature=0.9 if warm else 0.0, top_k=20, seed=number),
        stable_boundary=max(1, len(prompt) - 3),
        cache=CacheHints(reuse=reuse),
    )


async def said(backend: LocalBackend, request: EngineRequest) -> tuple[int, ...]:
    stream = await backend.submit(request)
    return tuple([token async for chunk in stream for token in chunk.tokens])


async def left_early(backend: LocalBackend, request: EngineRequest, chunks: int) -> None:
    stream = await backend.submit(request)
    for _ in range(chunks):
        try:
            await anext(stream)
        except StopAsyncIteration:
            break
    await stream.aclose()


@pytest.mark.parametrize("family", FAMILIES)
async def test_case_30_and_32_company_and_cache_change_nothing(tmp_path: Path, family: str) -> None:
    folder = write_checkpoint(tmp_path / family, family)
    async with served(folder, budget=0, lanes=1) as backend:
        alone = [await said(backend, asked(number, reuse=False)) for number in range(12)]
    async with served(folder, budget=BUDGET) as backend:
        for _ in range(2):
            together = await asyncio.gather(*(said(backend, asked(number)) for number in range(12)))
            assert list(together) == alone
        stats = backend.stats()
        assert stats.cache_hits > 0
        assert stats.cached_tokens > 0
        assert stats.cache_bytes <= BUDGET


@pytest.mark.parametrize("family", ["qwen3", "lfm2"])
async def test_case_33_the_budget_holds_whatever_clients_do(tmp_path: Path, family: str) -> None:
    folder = write_checkpoint(tmp_path / family, family)
    dice = random.Random(1)
    async with served(folder, budget=BUDGET) as backend:

        async def client(number: int) -> None:
            if number % 3 == 0:
                await left_early(backend, asked(number), dice.randint(0, 4))
            else:
                assert await said(backend, asked(number))
            assert backend.stats().cache_bytes <= BUDGET

        for start in range(0, 200, 20):
            await asyncio.gather(*(client(number) for number in range(start, start + 20)))
        async with asyncio.timeout(20):
            while backend.stats().running or backend.stats().waiting:
                await asyncio.sleep(0.01)
        stats = backend.stats()
        assert stats.failed == 0
        assert stats.cache_evicted > 0
        assert stats.cache_bytes <= BUDGET
