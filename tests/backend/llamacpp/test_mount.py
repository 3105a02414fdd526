"""Adapters: mounted at start and while serving, chosen by requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import EngineFailure, InvalidField, NotSupported, Unavailable
from dragoman.core.exchange import EngineRequest
from tests.backend.llamacpp.rig import QUICK, ask, chunks_of, eventually_ids, ids_of, serving
from tests.support.llama_stub import Stub
from tests.support.lora_files import write_lora

pytestmark = pytest.mark.anyio

FRANCE = (504, 3575, 282, 4649, 314)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("lora")
    return tuple(str(write_lora(folder / f"{seed}.gguf", seed=seed)) for seed in (1, 2))


def france(*adapters: AdapterScale, tokens: int = 7) -> EngineRequest:
    return ask(FRANCE, tokens, adapters=adapters)


# without a process


async def test_a_mount_waits_for_what_runs_and_what_comes_waits_for_it(files: tuple[str, str]) -> None:
    async with serving(Stub(step=0.005), lanes=1) as (backend, launcher):
        running = await backend.submit(ask(max_tokens=40))
        await anext(running)
        mounting = asyncio.create_task(backend.mount([Adapter("a", files[0])]))
        await asyncio.sleep(0.02)
        queued = await backend.submit(ask(max_tokens=4))
        rest = [token async for chunk in running for token in chunk.tokens]
        assert len(rest) >= 38, "not cut"
        await mounting
        assert len([token async for chunk in queued for token in chunk.tokens]) == 4
        assert len(launcher.engines) == 2
        assert launcher.engines[0].stopped
        assert launcher.engines[1].stub.received[-1]["lora"] == [{"id": 0, "scale": 1.0}]
        assert backend.adapters == (Adapter("a", files[0]),)
        assert backend.stats().restarts == 0


async def test_a_mount_gives_up_when_too_much_runs(files: tuple[str, str]) -> None:
    async with serving(Stub(step=0.005), lanes=1) as (backend, launcher):
        running = await backend.submit(ask(max_tokens=400))
        await anext(running)
        with pytest.raises(Unavailable, match="1 requests are still running"):
            await backend.mount([Adapter("a", files[0])], patience=0.05)
        await running.aclose()
        assert len(ids_of(await chunks_of(backend, ask()))) == 8
        assert (backend.adapters, len(launcher.engines)) == ((), 1)


async def test_a_mount_that_fails_brings_the_old_engine_back(files: tuple[str, str]) -> None:
    async with serving() as (backend, launcher):
        launcher.broken = True
        with pytest.raises(EngineFailure, match="does not start"):
            await backend.mount([Adapter("a", files[0])])
        launcher.broken = False
        assert len(await eventually_ids(backend, ask())) == 8
        assert backend.adapters == ()
        with pytest.raises(EngineFailure, match="no file"):
            await backend.mount([Adapter("a", "/gone.gguf")])
        assert len(ids_of(await chunks_of(backend, ask()))) == 8


async def test_a_stop_during_a_mount_leaves_nothing(files: tuple[str, str]) -> None:
    async with serving() as (backend, launcher):
        launcher.gate.clear()
        mounting = asyncio.create_task(backend.mount([Adapter("a", files[0])]))
        await asyncio.sleep(0.02)
        stopping = asyncio.create_task(backend.stop())
        await asyncio.sleep(0.02)
        launcher.gate.set()
        with pytest.raises(Unavailable):
            await mounting
        await stopping
        assert all(engine.stopped for engine in launcher.engines)


async def test_a_url_cannot_be_given_adapters() -> None:
    stub = Stub()
    port = await stub.listen()
    url = f"http://127.0.0.1:{port}"
    backend = LlamaCppBackend(LlamaCppOptions(model="", llama_server=url))
    stub.status["/lora-adapters"] = (200, [{"id": 0, "path": "/x/sql.gguf", "scale": 0.5}])  # type: ignore[assignment]
    await backend.start()
    assert backend.adapters == (Adapter("sql", "/x/sql.gguf", 0.5),)
    with pytest.raises(NotSupported):
        await backend.mount([Adapter("a", "a.gguf")])
    await chunks_of(backend, ask(adapters=(AdapterScale("sql", 2.0),)))
    assert stub.received[-1]["lora"] == [{"id": 0, "scale": 2.0}]
    await backend.stop()
    await stub.close()


# the starter model


@pytest.fixture(scope="module")
async def backend(starter_gguf: Path, files: tuple[str, str]) -> AsyncIterator[LlamaCppBackend]:
    adapters = (Adapter("a", files[0], 0.0), Adapter("b", files[1], 0.0))
    options = LlamaCppOptions(model=str(starter_gguf), lanes=1, context=1024, threads=1, adapters=adapters)
    made = LlamaCppBackend(options, policy=QUICK)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.mark.llamacpp
async def test_adapters_change_the_answer_and_never_each_others(backend: LlamaCppBackend) -> None:
    async def answer(*adapters: AdapterScale) -> list[int]:
        return ids_of(await chunks_of(backend, france(*adapters)))

    a, b = AdapterScale("a"), AdapterScale("b")
    sets = [(), (a,), (b,), (AdapterScale("a", 0.5), AdapterScale("b", 0.5))]
    alone = [await answer(*chosen) for chosen in sets]
    assert len({tuple(found) for found in alone}) == 4
    # One slot, the same prompt, every set after every other: nothing of another set's prefix may be used.
    for before in sets:
        for chosen, expected in zip(sets, alone, strict=True):
            await answer(*before)
            assert await answer(*chosen) == expected, (before, chosen)
    assert ids_of(await chunks_of(backend, ask(FRANCE, 7))) == alone[0], "as started: both at 0"
    with pytest.raises(InvalidField, match="'c' is not mounted"):
        await answer(AdapterScale("c"))


@pytest.mark.llamacpp
async def test_a_prefix_is_kept_while_the_adapters_stay_the_same(backend: LlamaCppBackend) -> None:
    for chosen in ((), (AdapterScale("a"),)):
        await chunks_of(backend, france(*chosen))
        again = await chunks_of(backend, france(*chosen))
        assert again[-1].report is not None
        assert again[-1].report.cached_tokens == len(FRANCE) - 1


@pytest.mark.llamacpp
@pytest.mark.slow
async def test_mounting_while_serving(starter_gguf: Path, files: tuple[str, str], tmp_path: Path) -> None:
    options = LlamaCppOptions(model=str(starter_gguf), lanes=1, context=512, threads=1)
    made = LlamaCppBackend(options, policy=QUICK)
    await made.start()
    try:
        base = ids_of(await chunks_of(made, ask(FRANCE, 7)))
        await made.mount([Adapter("a", files[0])])
        changed = ids_of(await chunks_of(made, ask(FRANCE, 7)))
        assert changed != base
        assert ids_of(await chunks_of(made, france())) == base
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(b"no adapter")
        with pytest.raises(EngineFailure, match="could not load"):
            await made.mount([Adapter("x", str(broken))])
        assert await eventually_ids(made, ask(FRANCE, 7)) == changed
        await made.mount([])
        assert ids_of(await chunks_of(made, ask(FRANCE, 7))) == base
    finally:
        await made.stop()
