"""Requests that run out of time."""

from __future__ import annotations

import pytest

from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.errors import EngineFailure
from dragoman.core.exchange import EngineFinish
from tests.scheduler.driving import FOREVER, drained, last_of, request, scheduler_of, text_of
from tests.scheduler.recording import RecordingEngine

PROMPT = "0123456789" * 8


@pytest.mark.parametrize(
    ("steps", "doing"), [(0, "it was waiting"), (1, "its prompt was read"), (4, "its answer was generated")]
)
def test_a_deadline_ends_a_request_at_any_stage(steps: int, doing: str) -> None:
    engine = RecordingEngine(FOREVER, lanes=1)
    cache = RamPrefixCache(1 << 20)
    scheduler = scheduler_of(engine, cache, prefill_chunk=40)
    scheduler.add(request("a", PROMPT, 1000, deadline=500.0), engine.clock.now)
    for _ in range(steps):
        scheduler.step()
    scheduler.add(request("b", "x", 2), engine.clock.now)
    engine.clock.now += 500
    deliveries = scheduler.step()
    error = last_of(deliveries).error
    assert isinstance(error, EngineFailure)
    assert error.message == f"The deadline of 500 seconds passed while {doing}."
    assert (cache.stats().stored > 0) == (steps > 0), "what was computed is kept"
    assert text_of(engine, deliveries + drained(scheduler), "b") == "lali"
    assert engine.open_rows == frozenset()
    assert scheduler.tally.failed == 1


def test_a_deadline_counts_from_the_arrival() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", deadline=10.0), engine.clock.now - 11)
    assert last_of(scheduler.step()).error is not None
    assert engine.named("open") == []


def test_one_that_ends_in_time_is_not_ended_again_nor_is_its_heir() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", max_tokens=2, deadline=1000.0), engine.clock.now)
    assert last_of(drained(scheduler)).chunk.finish is EngineFinish.LENGTH
    scheduler.add(request("a", max_tokens=100), engine.clock.now)
    scheduler.step()
    engine.clock.now += 2000
    assert last_of(drained(scheduler)).chunk.finish is EngineFinish.LENGTH


def test_the_next_of_two_deadlines_of_one_id_counts() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", max_tokens=1, deadline=100.0), engine.clock.now)
    drained(scheduler)
    scheduler.add(request("a", max_tokens=1000, deadline=5000.0), engine.clock.now)
    engine.clock.now += 200
    assert not any(delivery.is_last for delivery in scheduler.step())
    engine.clock.now += 5000
    assert last_of(scheduler.step()).error is not None
