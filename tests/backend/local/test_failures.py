"""Engines that break, at every point of their life: case 34 (a) at this seam."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.errors import EngineFailure, Unavailable
from dragoman.core.exchange import EngineFinish
from dragoman.core.operations import Health
from dragoman.engines.base import Engine, RowStep
from dragoman.engines.fake import FakeEngine, FakeScript
from tests.backend.local.gated import GatedEngine
from tests.backend.local.serving import read, read_tokens, request, serving, text_of

pytestmark = pytest.mark.anyio


async def test_case_34_a_row_that_fails_leaves_the_others_alone() -> None:
    engine = GatedEngine(lanes=4, is_open=True)
    async with serving(engine) as backend:
        good = [await backend.submit(request(id, "x", 40)) for id in "abc"]
        bad = await backend.submit(request("bad", "#fail", 40))
        await read_tokens(bad, 3)
        with pytest.raises(EngineFailure, match="lamp broke"):
            await anext(bad)
        with pytest.raises(StopAsyncIteration):
            await anext(bad)
        for stream in good:
            assert text_of(engine, await read(stream)) == "la li " * 20
        assert backend.health() == Health("ok")
        stats = backend.stats()
    assert (stats.finished, stats.failed) == (3, 1)


async def test_case_34_a_step_that_raises_fails_the_running_streams_and_serving_goes_on() -> None:
    engine = GatedEngine(lanes=4)
    async with serving(engine) as backend:
        running = [await backend.submit(request(id, "x", 40)) for id in "abc"]
        running.append(await backend.submit(request("bad", "#raise", 40)))
        queued = await backend.submit(request("queued", "x", 40))
        engine.open_gate()
        errors = await asyncio.gather(*map(read, running), return_exceptions=True)
        assert all(isinstance(error, EngineFailure) and "device lost" in str(error) for error in errors)
        assert text_of(engine, await read(queued)) == "la li " * 20
        assert text_of(engine, await read(await backend.submit(request("a", "#short", 9)))) == "one two<|eos|>"
        assert backend.health() == Health("ok")
        stats = backend.stats()
    assert (stats.finished, stats.failed, stats.running, stats.waiting) == (2, 4, 0, 0)


class Dying(GatedEngine):
    """Its third step raises what no step should."""

    def __init__(self, fault: BaseException, lanes: int = 2) -> None:
        super().__init__(lanes=lanes)
        self.fault = fault

    def step(self, rows: Sequence[int]) -> list[RowStep]:
        steps = super().step(rows)
        if self.works == 3:
            raise self.fault
        return steps


async def test_case_34_out_of_memory_is_survived() -> None:
    engine = Dying(MemoryError("no room for 1 GiB"))
    async with serving(engine) as backend:
        stream = await backend.submit(request("a"))
        engine.open_gate()
        with pytest.raises(EngineFailure, match="MemoryError: no room for 1 GiB"):
            await read(stream)
        assert (await read(await backend.submit(request("b"))))[-1].finish is EngineFinish.LENGTH


async def test_case_34_a_thread_that_dies_ends_every_stream_and_says_so() -> None:
    engine = Dying(SystemExit(3))
    backend = LocalBackend(lambda: engine)
    await backend.start()
    streams = [await backend.submit(request(str(number))) for number in range(10)]
    engine.open_gate()
    outcomes = await asyncio.gather(*map(read, streams), return_exceptions=True)
    assert all(isinstance(error, EngineFailure) and "SystemExit: 3" in str(error) for error in outcomes)
    assert len({id(error) for error in outcomes}) == 10
    health = backend.health()
    assert health.status == "failed"
    assert "SystemExit" in health.detail
    with pytest.raises(Unavailable, match="SystemExit"):
        await backend.submit(request("later"))
    stats = backend.stats()
    assert (stats.running, stats.waiting, stats.failed) == (0, 0, 10)
    assert engine.is_unloaded
    await backend.stop()
    assert backend.health().status == "failed"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: FakeEngine(FakeScript(load_error="the weights are torn")), "the weights are torn"),
        (lambda: [][1], "could not be loaded: IndexError: list index out of range"),
        (lambda: __import__("no_such_engine"), "ModuleNotFoundError: No module named 'no_such_engine'"),
    ],
)
async def test_a_failed_load_surfaces_with_its_reason(make: type[Engine], reason: str) -> None:
    backend = LocalBackend(make)
    for _ in range(2):
        with pytest.raises(EngineFailure, match=reason):
            await backend.start()
    assert backend.health().status == "failed"
    assert reason in backend.health().detail
    with pytest.raises(Unavailable, match=reason):
        await backend.submit(request("a"))
    await backend.stop()


async def test_a_load_that_raises_anything_surfaces_too() -> None:
    class Torn(GatedEngine):
        def load(self) -> None:
            raise KeyError("tok_embeddings")

    engine = Torn()
    backend = LocalBackend(lambda: engine)
    with pytest.raises(EngineFailure, match="could not be loaded: KeyError: 'tok_embeddings'"):
        await backend.start()
    await backend.stop()
    assert engine.is_unloaded


async def test_an_unload_that_raises_does_not_stop_the_stop() -> None:
    class Clinging(GatedEngine):
        def unload(self) -> None:
            super().unload()
            raise RuntimeError("still in use")

    async with serving(Clinging(is_open=True)) as backend:
        await read(await backend.submit(request("a")))
    assert backend.health() == Health("draining")
