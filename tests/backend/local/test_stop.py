"""Stopping a local backend, whatever it is doing."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.errors import Unavailable
from dragoman.core.operations import Health
from dragoman.engines.fake import FakeEngine, FakeScript
from dragoman.scheduler.limits import SchedulerLimits
from tests.backend.local.gated import LONGEST_WAIT, GatedEngine
from tests.backend.local.serving import read, request, until


def engine_threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"engine-{name}"]


@pytest.mark.anyio
async def test_stop_ends_running_and_queued_streams() -> None:
    engine = GatedEngine(lanes=2)
    backend = LocalBackend(lambda: engine, SchedulerLimits(max_waiting=1000), name="busy")
    await backend.start()
    streams = [await backend.submit(request(str(number), "x", 1000)) for number in range(1002)]
    engine.allow(3)
    await until(lambda: engine.works == 3 and engine.is_at_gate)
    stopping = asyncio.ensure_future(backend.stop())
    await asyncio.sleep(0)
    engine.allow()
    outcomes = await asyncio.gather(*map(read, streams), return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert all(outcome.retry_after for outcome in outcomes if isinstance(outcome, Unavailable))
    await stopping
    assert engine_threads("busy") == []
    assert engine.is_unloaded
    stats = backend.stats()
    assert (stats.running, stats.waiting, stats.failed) == (0, 0, 1002)
    with pytest.raises(Unavailable, match="shutting down"):
        await backend.submit(request("late"))


@pytest.mark.anyio
async def test_stop_while_loading_lets_start_go() -> None:
    backend = LocalBackend(lambda: FakeEngine(FakeScript(load_delay=0.2)), name="loading")
    starting = asyncio.ensure_future(backend.start())
    await asyncio.sleep(0.01)
    assert backend.health() == Health("loading")
    with pytest.raises(Unavailable, match="still loading") as caught:
        await backend.submit(request("early"))
    assert caught.value.retry_after == 1
    await backend.stop()
    with pytest.raises(Unavailable, match="stopped"):
        await starting
    assert engine_threads("loading") == []
    assert backend.health() == Health("draining")


@pytest.mark.anyio
async def test_stop_twice_and_at_once_and_before_the_start() -> None:
    backend = LocalBackend(GatedEngine, name="twice")
    await backend.start()
    await backend.start()
    await asyncio.gather(backend.stop(), backend.stop())
    await backend.stop()
    assert engine_threads("twice") == []
    fresh = LocalBackend(GatedEngine)
    await fresh.stop()
    await fresh.stop()
    with pytest.raises(Unavailable, match="stopped"):
        await fresh.start()


@pytest.mark.anyio
async def test_a_cancelled_start_can_be_waited_for_again() -> None:
    backend = LocalBackend(lambda: FakeEngine(FakeScript(load_delay=0.05)))
    impatient = asyncio.ensure_future(backend.start())
    await asyncio.sleep(0.01)
    impatient.cancel()
    await backend.start()
    assert backend.health() == Health("ok")
    await backend.stop()


@pytest.mark.anyio
async def test_an_engine_that_does_not_return_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    engine = GatedEngine()
    backend = LocalBackend(lambda: engine, name="stuck", stop_timeout=0.05)
    await backend.start()
    stream = await backend.submit(request("a"))
    await until(lambda: bool(engine.open_rows))
    await backend.stop()
    with pytest.raises(Unavailable):
        await read(stream)
    assert "did not stop" in caplog.text
    assert backend.health() == Health("draining")
    engine.open_gate()
    await backend.stop()
    assert engine_threads("stuck") == []


def test_a_loop_that_is_closed_without_a_stop_ends_the_thread() -> None:
    engine = GatedEngine(is_open=True)

    async def forget() -> object:
        backend = LocalBackend(lambda: engine, name="forgotten")
        await backend.start()
        return await backend.submit(request("a", "x", 8000))

    stream = asyncio.run(forget())
    deadline = time.monotonic() + LONGEST_WAIT
    while engine_threads("forgotten"):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert engine.is_unloaded
    del stream
