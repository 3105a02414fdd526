"""Clients that leave: case 22 at this seam."""

from __future__ import annotations

import asyncio
import gc
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.backend.base import TokenStream
from dragoman.backend.local import LocalBackend
from dragoman.core.exchange import EngineFinish
from tests.backend.local.gated import GatedEngine
from tests.backend.local.serving import read, read_tokens, request, serving, text_of, until

Stage = Literal["queued", "prefill", "decode"]
Way = Literal["aclose", "task", "dropped"]
PROMPT = "a prompt of several more chunks"
CHUNK = 8


async def reach(stage: Stage, engine: GatedEngine, backend: LocalBackend) -> None:
    """Let the engine come as far as the stage; it then stands in its next step."""
    works = {"queued": 0, "prefill": 2, "decode": 7}[stage]
    if works:
        engine.allow(works)
    await until(lambda: engine.works == works and engine.is_at_gate)


async def leave(way: Way, streams: list[TokenStream]) -> TokenStream | None:
    """Leave the only stream in the list in one of the ways a client can; keeps it alive unless that is the way."""
    stream = streams.pop()
    match way:
        case "aclose":
            await stream.aclose()
            await stream.aclose()
        case "task":
            reader = asyncio.ensure_future(read(stream))
            await asyncio.sleep(0.01)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        case "dropped":
            del stream
            gc.collect()
            await asyncio.sleep(0)
            return None
    return stream


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["aclose", "task", "dropped"])
@pytest.mark.parametrize("stage", ["queued", "prefill", "decode"])
async def test_case_22_a_client_that_leaves_frees_its_row_within_one_step(stage: Stage, way: Way) -> None:
    engine = GatedEngine(lanes=1)
    async with serving(engine, prefill_chunk=CHUNK) as backend:
        ahead = None
        if stage == "queued":
            ahead = await backend.submit(request("ahead", "x", 3))
        streams = [await backend.submit(request("a", PROMPT, 2000))]
        await reach(stage, engine, backend)
        then = await backend.submit(request("b", "#short", 10))
        before = engine.works
        kept = await leave(way, streams)
        engine.allow()
        await until(lambda: backend.stats().cancelled == 1)
        assert engine.works == before + 1, "only the work that was under way"
        if stage != "queued":
            await until(lambda: engine.opened[-1] == "#short")
            assert engine.works == before + 1, "the next request has the row already"
        engine.open_gate()
        assert text_of(engine, await read(then)) == "one two<|eos|>"
        assert (PROMPT in engine.opened) == (stage != "queued")
        if ahead is not None:
            assert (await read(ahead))[-1].finish is EngineFinish.LENGTH
        stats = backend.stats()
        assert (stats.running, stats.waiting, stats.cancelled, stats.failed) == (0, 0, 1, 0)
        if kept is not None:
            assert await read(kept) == []
        assert stats.finished == (2 if stage == "queued" else 1)


@pytest.mark.anyio
async def test_case_22_after_three_deltas_the_next_request_starts_at_once() -> None:
    engine = GatedEngine(lanes=1, is_open=True)
    async with serving(engine) as backend:
        stream = await backend.submit(request("a", "x", 2000))
        then = await backend.submit(request("b", "#short", 10))
        await read_tokens(stream, 3)
        await stream.aclose()
        assert text_of(engine, await read(then)) == "one two<|eos|>"
        assert backend.stats().cancelled == 1
        assert backend.stats().completion_tokens < 2000


@pytest.mark.anyio
async def test_a_closed_stream_gives_nothing_more() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine) as backend:
        for finished in (False, True):
            stream = await backend.submit(request("a", "x", 4 if finished else 2000))
            await read_tokens(stream, 2)
            if finished:
                await until(lambda: backend.stats().finished == 1)
            await stream.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            await until(lambda: backend.stats().running == 0)
        assert backend.stats().cancelled == 1


@pytest.mark.anyio
async def test_the_id_is_free_again_once_the_engine_let_go() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine) as backend:
        stream = await backend.submit(request("a", "x", 2000))
        await read_tokens(stream, 1)
        await stream.aclose()
        await until(lambda: backend.stats().cancelled == 1)
        assert text_of(engine, await read(await backend.submit(request("a", "#short", 9)))) == "one two<|eos|>"


Client = tuple[int, int, int]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60), st.integers(0, 40)), min_size=1, max_size=25))
@settings(max_examples=20, deadline=None)
def test_whatever_clients_do_every_request_is_accounted_for(clients: list[Client]) -> None:
    """Each client has a way to behave, a length and a patience; at the end nothing runs and all are counted once."""

    async def visit(backend: LocalBackend, number: int, client: Client) -> None:
        behaviour, length, patience = client
        stream = await backend.submit(request(str(number), ("x", "#fail", "#short", PROMPT)[number % 4], length))
        if behaviour == 0:
            await asyncio.gather(read(stream), return_exceptions=True)
        elif behaviour == 1:
            await asyncio.sleep(patience / 10000)
            await stream.aclose()
        elif behaviour == 2:
            reader = asyncio.ensure_future(read(stream))
            await asyncio.sleep(patience / 10000)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        else:
            await asyncio.sleep(patience / 10000)

    async def run() -> None:
        engine = GatedEngine(lanes=3, is_open=True)
        async with serving(engine, prefill_chunk=CHUNK) as backend:
            await asyncio.gather(*(visit(backend, number, client) for number, client in enumerate(clients)))
            gc.collect()

            def settled() -> bool:
                stats = backend.stats()
                ended = stats.finished + stats.cancelled + stats.failed
                return ended == len(clients) and stats.running == stats.waiting == 0

            await until(settled)
            assert engine.open_rows == frozenset()
            for number in range(3 + 64):
                await backend.submit(request(f"again{number}"))

    asyncio.run(run())
