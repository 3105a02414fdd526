"""How many tokens per second the scheduler and the local backend move when the engine costs nothing.

Run by hand: `python -m tests.backend.local.throughput [rows] [tokens]`. A report, not a test: nothing is asserted.
"""

from __future__ import annotations

import asyncio
import sys
import time

from dragoman.backend.local import LocalBackend
from dragoman.core.exchange import EngineRequest
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.scheduler import Scheduler

SCRIPT = FakeScript(rules=(FakeRule(pieces=("la ", "li ", "lu "), repeat=True),), lanes=64, context_length=1 << 20)


def engine_rate(rows: int, tokens: int, script: FakeScript | None) -> float:
    engine = FakeEngine(script, lanes=rows, context_length=1 << 20)
    engine.load()
    for row in range(rows):
        engine.open(row, RowSpec(prompt=(65,), sampling=SamplingSpec(seed=row, temperature=0.8, ignore_eos=True)))
    began = time.perf_counter()
    for _ in range(tokens):
        engine.step(range(rows))
    return rows * tokens / (time.perf_counter() - began)


def scheduler_rate(rows: int, tokens: int) -> float:
    engine = FakeEngine(SCRIPT, lanes=rows)
    engine.load()
    scheduler = Scheduler(engine, SchedulerLimits())
    for row in range(rows):
        scheduler.add(EngineRequest(id=str(row), prompt=(65,), max_tokens=tokens), time.perf_counter())
    began = time.perf_counter()
    while scheduler.has_work:
        scheduler.step()
    return rows * tokens / (time.perf_counter() - began)


async def backend_rate(rows: int, tokens: int) -> float:
    backend = LocalBackend(lambda: FakeEngine(SCRIPT, lanes=rows))
    await backend.start()

    async def consume(number: int) -> int:
        stream = await backend.submit(EngineRequest(id=str(number), prompt=(65,), max_tokens=tokens))
        return sum([len(chunk.tokens) async for chunk in stream])

    began = time.perf_counter()
    total = sum(await asyncio.gather(*map(consume, range(rows))))
    seconds = time.perf_counter() - began
    await backend.stop()
    return total / seconds


def main() -> None:
    rows, tokens = (int(value) for value in (*sys.argv[1:3], "16", "5000")[:2])
    sys.setswitchinterval(0.0005)
    print(f"{rows} rows, {tokens} tokens each, tokens per second")
    print(f"  engine, scripted  {engine_rate(rows, tokens, SCRIPT):12,.0f}")
    print(f"  engine, toy logits{engine_rate(rows, min(tokens, 500), None):12,.0f}")
    print(f"  scheduler         {scheduler_rate(rows, tokens):12,.0f}")
    print(f"  backend           {asyncio.run(backend_rate(rows, tokens)):12,.0f}")


if __name__ == "__main__":
    main()
