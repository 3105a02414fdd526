"""Prefill chunks take about as long as they may, on fast machines and slow ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.exchange import EngineFinish
from dragoman.scheduler.pace import Pace
from tests.scheduler.driving import FOREVER, drained, last_of, request, scheduler_of
from tests.scheduler.recording import RecordingEngine


def _settled(pace: Pace, fixed: float, per_token: float, chunks: int = 20) -> list[int]:
    """The chunks of a machine that needs `fixed` seconds for a chunk and `per_token` for each of its tokens."""
    sizes = []
    for _ in range(chunks):
        sizes.append(pace.chunk)
        pace.took(pace.chunk, fixed + per_token * pace.chunk)
    return sizes


@pytest.mark.parametrize(
    ("tokens_per_second", "chunk"),
    [(100_000, 512), (1000, 512), (300, 256), (140, 128), (40, 32), (7, 16), (1, 16)],
)
def test_a_chunk_takes_a_second_at_most_where_that_can_be(tokens_per_second: float, chunk: int) -> None:
    assert _settled(Pace(512, 1.0), 0.0, 1 / tokens_per_second)[-1] == chunk


@given(st.floats(0, 2), st.floats(1e-5, 0.5))
def test_it_settles_and_stays(fixed: float, per_token: float) -> None:
    sizes = _settled(Pace(512, 1.0), fixed, per_token)
    assert len(set(sizes[10:])) == 1


def test_without_a_limit_in_seconds_the_chunk_is_what_may_be() -> None:
    assert set(_settled(Pace(300), 0.0, 1.0)) == {300}


def test_a_machine_that_was_busy_gets_its_chunks_back() -> None:
    pace = Pace(256, 0.1)
    assert _settled(pace, 0.0, 0.01)[-1] == 16
    assert _settled(pace, 0.0, 0.0001)[-1] == 256


def test_the_end_of_a_prompt_is_no_reason_to_grow() -> None:
    pace = Pace(512, 1.0)
    for _ in range(10):
        pace.took(3, 0.001)
    assert pace.chunk == 256


def test_what_was_more_than_a_chunk_counts_by_its_tokens() -> None:
    pace = Pace(256, 1.0)
    pace.took(320, 1.2)
    assert pace.chunk == 256
    pace.took(320, 1.3)
    assert pace.chunk == 128


def test_a_slow_engine_is_given_less_at_once() -> None:
    engine = RecordingEngine(context_length=4096)
    scheduler = scheduler_of(engine, prefill_chunk=512, prefill_seconds_idle=60)
    scheduler.add(request("a", "x" * 600, 1), 0.0)
    deliveries = drained(scheduler)
    # A token takes this engine 2 seconds.
    assert [count for _, _, count in engine.named("prefill")][:6] == [256, 128, 64, 32, 16, 16]
    assert last_of(deliveries).chunk.finish is EngineFinish.LENGTH


def test_running_streams_wait_less_than_an_idle_machine() -> None:
    engine = RecordingEngine(FOREVER, context_length=4096)
    scheduler = scheduler_of(engine, prefill_chunk=64, prefill_chunk_idle=64, prefill_seconds=40)
    scheduler.add(request("a", "x", 100), 0.0)
    scheduler.step()
    scheduler.add(request("b", "y" * 200, 1), 0.0)
    drained(scheduler)
    assert [count for _, row, count in engine.named("prefill") if row == 1][:3] == [64, 32, 16]
