from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.jobs.lanes import IdleLanes, Load

pytestmark = pytest.mark.anyio


class Engine:
    """What the lanes see: calls of theirs that run, and others."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.ours = self.most = self.others = self.waiting = 0
        self.go = asyncio.Event()

    def load(self) -> Load:
        return Load(self.lanes, self.ours + self.others, self.waiting)

    async def call(self) -> str:
        self.ours += 1
        self.most = max(self.most, self.ours)
        try:
            await self.go.wait()
            return "done"
        finally:
            self.ours -= 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_never_more_than_idle_lanes() -> None:
    engine = Engine(3)
    engine.others = 1
    lanes = IdleLanes(engine.load)
    tasks = [asyncio.ensure_future(lanes.run(engine.call)) for _ in range(8)]
    await until(lambda: engine.ours == 2)
    await asyncio.sleep(0.2)
    assert engine.ours == 2
    engine.others = 0
    await until(lambda: engine.ours == 3)
    engine.go.set()
    assert await asyncio.gather(*tasks) == ["done"] * 8
    assert engine.most == 3


async def test_nothing_begins_while_others_wait_or_the_server_drains() -> None:
    engine = Engine(3)
    engine.waiting = 1
    lanes = IdleLanes(engine.load)
    task = asyncio.ensure_future(lanes.run(engine.call))
    await asyncio.sleep(0.15)
    assert engine.ours == 0
    engine.waiting, engine.lanes = 0, 0
    await asyncio.sleep(0.15)
    assert engine.ours == 0
    engine.lanes = 1
    engine.go.set()
    assert await task == "done"


async def test_those_that_wait_long_get_a_lane() -> None:
    engine = Engine(2)
    lanes = IdleLanes(engine.load, patience=0)
    tasks = [asyncio.ensure_future(lanes.run(engine.call)) for _ in range(2)]
    await until(lambda: engine.ours == 2)
    engine.waiting = 1
    lanes.relieve()
    lanes.relieve()
    await until(lambda: engine.ours == 1)
    engine.waiting = 0
    await until(lambda: engine.ours == 2)
    engine.go.set()
    assert await asyncio.gather(*tasks) == ["done", "done"]


async def test_calls_that_wait_to_begin_are_no_others() -> None:
    """An engine counts what it has not begun to read as waiting."""
    engine = Engine(2)
    lanes = IdleLanes(lambda: Load(2, 0, engine.ours), patience=0)
    tasks = [asyncio.ensure_future(lanes.run(engine.call)) for _ in range(2)]
    await until(lambda: engine.ours == 2)
    lanes.relieve()
    lanes.relieve()
    await asyncio.sleep(0.05)
    assert engine.ours == 2
    engine.go.set()
    assert await asyncio.gather(*tasks) == ["done", "done"]


async def test_a_call_is_not_put_off_for_ever() -> None:
    engine = Engine(1)
    begun = 0

    async def call() -> str:
        nonlocal begun
        begun += 1
        return await engine.call()

    lanes = IdleLanes(engine.load, patience=0)
    task = asyncio.ensure_future(lanes.run(call))
    for _ in range(6):
        await until(lambda: engine.ours == 1)
        engine.waiting = 1
        lanes.relieve()
        lanes.relieve()
        await asyncio.sleep(0.02)
        engine.waiting = 0
    assert begun == 4
    engine.go.set()
    assert await task == "done"


async def test_cancelling_frees_the_lane() -> None:
    engine = Engine(1)
    lanes = IdleLanes(engine.load)
    first = asyncio.ensure_future(lanes.run(engine.call))
    second = asyncio.ensure_future(lanes.run(engine.call))
    await until(lambda: engine.ours == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    engine.go.set()
    assert await second == "done"


async def test_errors_pass() -> None:
    async def fail() -> str:
        raise ZeroDivisionError

    lanes = IdleLanes(Engine(1).load)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await lanes.run(fail)
