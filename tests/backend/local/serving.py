"""Starting local backends around test engines and talking to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.backend.base import TokenStream
from dragoman.backend.local import LocalBackend
from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.scheduler.limits import SchedulerLimits
from tests.backend.local.gated import LONGEST_WAIT, GatedEngine


@asynccontextmanager
async def serving(engine: GatedEngine, *, cache_budget: int = 0, **limits: int) -> AsyncIterator[LocalBackend]:
    """A started backend, stopped on the way out; checks that its thread is gone then."""
    limits.setdefault("prefill_chunk_idle", limits.get("prefill_chunk", 256))
    backend = LocalBackend(lambda: engine, SchedulerLimits(**limits), cache_budget=cache_budget, name="test")
    await backend.start()
    try:
        yield backend
    finally:
        engine.open_gate()
        await backend.stop()
        assert engine.is_unloaded
        assert len(engine.threads) == 1


def request(id: str, prompt: str = "x", max_tokens: int = 4, **more: object) -> EngineRequest:
    return EngineRequest(
        id=id,
        prompt=tuple(prompt.encode()),
        max_tokens=max_tokens,
        stop_tokens=frozenset((257,)),
        **more,  # type: ignore[arg-type]
    )


async def read(stream: TokenStream) -> list[TokenChunk]:
    return [chunk async for chunk in stream]


async def read_tokens(stream: TokenStream, count: int) -> None:
    """Read until `count` tokens came."""
    while count > 0:
        count -= len((await anext(aiter(stream))).tokens)


def text_of(engine: GatedEngine, chunks: list[TokenChunk]) -> str:
    return engine.tokenizer.decode([token for chunk in chunks for token in chunk.tokens])


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something holds."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, "this never came to be"
        await asyncio.sleep(0.001)
