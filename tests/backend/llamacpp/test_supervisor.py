"""Restarts on a clock of their own."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.backend.llamacpp.endpoint import Endpoint
from dragoman.backend.llamacpp.engine import RunningEngine
from dragoman.backend.llamacpp.supervisor import RestartPolicy, Supervisor
from dragoman.core.errors import DragomanError, EngineFailure, Unavailable

pytestmark = pytest.mark.anyio


class Engine:
    endpoint = Endpoint()
    build = ""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.end = asyncio.Event()
        self.stopped = 0

    async def gone(self) -> str:
        await self.end.wait()
        return "ended with status 3"

    async def stop(self) -> None:
        self.stopped += 1


class World:
    """Launcher, listener, clock and sleep in one; every sleep passes at once."""

    def __init__(self, *, patient: bool = False) -> None:
        self.patient = patient
        self.now = 0.0
        self.sleeps: list[float] = []
        self.engines: list[Engine] = []
        self.failing = 0
        self.told: list[str] = []
        self.changed = asyncio.Event()

    async def launch(self) -> Engine:
        if self.failing:
            self.failing -= 1
            raise EngineFailure("no luck")
        self.engines.append(Engine(len(self.engines) + 1))
        return self.engines[-1]

    async def engine_up(self, engine: RunningEngine) -> None:
        self.tell(f"up {engine.pid}")

    def engine_down(self, error: DragomanError) -> None:
        self.tell("down")

    def engine_failed(self, error: DragomanError) -> None:
        self.tell("failed")

    def tell(self, what: str) -> None:
        self.told.append(what)
        self.changed.set()

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.told) < count:
                self.changed.clear()
                await self.changed.wait()
        await asyncio.sleep(0)

    def supervisor(self, policy: RestartPolicy | None = None) -> Supervisor:
        return Supervisor(self, self, policy, clock=lambda: self.now, sleep=self.sleep)


async def test_restarts_with_growing_delays_then_gives_up() -> None:
    world = World()
    supervisor = world.supervisor()
    await supervisor.start()
    for number in range(4):
        world.engines[number].end.set()
        await world.until(2 * number + 3)
    assert world.told == ["up 1", "down", "up 2", "down", "up 3", "down", "up 4", "down", "failed"]
    assert world.sleeps == [0.1, 0.5, 2.5]
    assert supervisor.restarts == 3
    assert supervisor.health().status == "failed"
    assert all(engine.stopped for engine in world.engines)
    with pytest.raises(Unavailable):
        supervisor.require()
    await supervisor.stop()


async def test_crashes_far_apart_do_not_add_up() -> None:
    world = World()
    supervisor = world.supervisor()
    await supervisor.start()
    for number in range(8):
        world.now += 61
        world.engines[number].end.set()
        await world.until(2 * number + 3)
    assert supervisor.health().status == "ok"
    assert set(world.sleeps) == {0.1}
    await supervisor.stop()
    await supervisor.stop()
    assert world.engines[-1].stopped == 1


async def test_failed_starts_count() -> None:
    world = World()
    supervisor = world.supervisor()
    await supervisor.start()
    world.failing = 3
    world.engines[0].end.set()
    await world.until(3)
    assert world.told == ["up 1", "down", "failed"]
    assert "no luck" in supervisor.health().detail
    await supervisor.stop()


async def test_a_server_of_somebody_else_is_waited_for_without_end() -> None:
    world = World(patient=True)
    supervisor = world.supervisor()
    await supervisor.start()
    world.failing = 20
    world.engines[0].end.set()
    await world.until(3)
    assert world.told == ["up 1", "down", "up 2"]
    assert len(world.sleeps) == 21
    await supervisor.stop()


async def test_a_first_start_that_fails_is_told_and_may_be_repeated() -> None:
    world = World()
    supervisor = world.supervisor()
    with pytest.raises(Unavailable):
        supervisor.require()
    world.failing = 1
    with pytest.raises(EngineFailure, match="no luck"):
        await supervisor.start()
    assert supervisor.health().status == "failed"
    await supervisor.start()
    supervisor.require()
    await supervisor.stop()
    assert supervisor.health().status == "draining"
