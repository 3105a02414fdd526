"""Byte budgets: rows wait for room, prefixes give way, nothing is ever above. Case 33."""

from __future__ import annotations

import random

import pytest

from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.errors import InvalidRequest
from dragoman.core.exchange import EngineFinish
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.scheduler import Delivery, Scheduler
from tests.scheduler.driving import cached_of, drained, last_of, request, scheduler_of
from tests.scheduler.recording import RecordingEngine

WEIGHT = 1000
SCRIPT = FakeScript(rules=(FakeRule(pieces=("la", "li"), repeat=True),), token_bytes=WEIGHT)


def started(deliveries: list[Delivery]) -> list[str]:
    return [delivery.id for delivery in deliveries if delivery.chunk.started is not None]


def test_rows_wait_until_all_they_may_become_fits() -> None:
    engine = RecordingEngine(SCRIPT)
    scheduler = scheduler_of(engine, kv_budget=100 * WEIGHT)
    for id, prompt, length in (("a", "x" * 40, 20), ("b", "y" * 20, 21), ("c", "z", 4), ("d", "z", 4)):
        scheduler.add(request(id, prompt, length), 100.0)
    assert started(scheduler.step()) == ["a"], "b does not fit beside it, and c must not pass b"
    deliveries: list[Delivery] = []
    while scheduler.has_work and not started(deliveries):
        deliveries += scheduler.step()
    assert started(deliveries) == ["b", "c", "d"]
    deliveries += drained(scheduler)
    assert all(last_of(deliveries, id).chunk.finish is EngineFinish.LENGTH for id in "abcd")


@pytest.mark.parametrize("budget", ["kv_budget", "total_budget"])
def test_a_request_that_never_fits_is_refused_with_the_numbers(budget: str) -> None:
    engine = RecordingEngine(SCRIPT)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 30), **{budget: 50 * WEIGHT})
    scheduler.add(request("a", "x" * 31, 20), 100.0)
    scheduler.add(request("b", "x" * 30, 20), 100.0)
    deliveries = scheduler.step()
    error = last_of(deliveries).error
    assert isinstance(error, InvalidRequest)
    assert "51000 bytes" in error.message
    assert "51 tokens" in error.message
    assert "50000 bytes" in error.message
    assert engine.named("open") == [("open", 0, 30)]
    assert last_of(drained(scheduler), "b").chunk.finish is EngineFinish.LENGTH


def test_no_more_than_the_window_is_projected() -> None:
    engine = RecordingEngine(SCRIPT, context_length=50)
    scheduler = scheduler_of(engine, kv_budget=50 * WEIGHT)
    scheduler.add(request("a", "x" * 31, 1 << 20), 100.0)
    assert last_of(drained(scheduler)).chunk.finish is EngineFinish.CONTEXT


def test_an_engine_that_does_not_know_its_figures_is_not_held_back() -> None:
    engine = RecordingEngine(FakeScript(rules=SCRIPT.rules, token_bytes=0))
    scheduler = scheduler_of(engine, kv_budget=1)
    for number in range(4):
        scheduler.add(request(str(number)), 100.0)
    assert len(started(scheduler.step())) == 4


def test_figures_that_fail_fail_that_request() -> None:
    class Broken(RecordingEngine):
        def row_bytes(self, length: int) -> int:
            raise ValueError("no figures")

    scheduler = scheduler_of(Broken(SCRIPT), kv_budget=1)
    scheduler.add(request("a"), 100.0)
    assert "no figures" in str(last_of(drained(scheduler)).error)


def test_cached_prefixes_give_way_to_rows() -> None:
    engine = RecordingEngine(SCRIPT)
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(engine, cache, total_budget=100 * WEIGHT)
    scheduler.add(request("a", "a" * 60, 2), 100.0)
    drained(scheduler)
    assert cache.stats().bytes == 61 * WEIGHT
    scheduler.add(request("b", "b" * 30, 9), 100.0)
    scheduler.step()
    assert cache.stats().bytes == 61 * WEIGHT, "both fit"
    scheduler.add(request("c", "c" * 30, 2), 100.0)
    scheduler.step()
    assert cache.stats().bytes == 0, "the three do not"
    drained(scheduler)


def test_a_prefix_is_used_before_it_gives_way() -> None:
    engine = RecordingEngine(SCRIPT)
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(engine, cache, total_budget=100 * WEIGHT)
    scheduler.add(request("a", "a" * 60, 2), 100.0)
    drained(scheduler)
    scheduler.add(request("b", "a" * 60 + "b", 2), 100.0)
    assert cached_of(drained(scheduler), "b") == 60


def followers(scheduler: Scheduler, lengths: list[int]) -> None:
    """Requests of 81 prompt tokens, of which they share 80, and that many to sample."""
    for number, length in enumerate(lengths):
        scheduler.add(request(str(number), "s" * 80 + str(number), length), 100.0)


def test_prefixes_held_for_followers_count() -> None:
    """Room for two rows of 96, or for one and the held prefix of 80: only the last two run together."""
    engine = RecordingEngine(SCRIPT)
    scheduler = scheduler_of(engine, kv_budget=200 * WEIGHT)
    followers(scheduler, [15] * 4)
    deliveries = drained(scheduler, 1000)
    assert [cached_of(deliveries, str(number)) for number in range(4)] == [0, 80, 80, 80]
    together = [len(rows) for _, rows, _ in engine.named("step")]  # type: ignore[arg-type]
    assert together.index(2) == 30


def test_prefixes_that_do_not_fit_are_not_held() -> None:
    engine = RecordingEngine(SCRIPT)
    scheduler = scheduler_of(engine, kv_budget=170 * WEIGHT)
    followers(scheduler, [15] * 3)
    assert [cached_of(drained(scheduler, 1000), id) for id in "1"] == [0]
    assert engine.prefilled_tokens == 3 * 80


def test_prefixes_held_for_followers_never_block_everything() -> None:
    """The second fits alone but not beside what is held for the third, which therefore computes its prompt itself."""
    engine = RecordingEngine(SCRIPT)
    scheduler = scheduler_of(engine, kv_budget=200 * WEIGHT)
    followers(scheduler, [15, 60, 15])
    deliveries = drained(scheduler, 1000)
    assert [cached_of(deliveries, str(number)) for number in range(3)] == [0, 80, 0]


@pytest.mark.parametrize("trimmable", [True, False])
def test_case_33_the_budgets_hold_over_200_prompts_a_third_aborted(trimmable: bool) -> None:
    dice = random.Random(33)
    engine = RecordingEngine(FakeScript(default="logits", trimmable=trimmable, token_bytes=WEIGHT), lanes=4)
    budget, total = 300 * WEIGHT, 700 * WEIGHT
    cache = RamPrefixCache(budget)
    scheduler = scheduler_of(engine, cache, prefill_chunk=64, total_budget=total)
    heads = ["".join(chr(97 + dice.randrange(26)) for _ in range(dice.randrange(40, 150))) for _ in range(6)]
    ended: set[str] = set()
    for number in range(200):
        prompt = dice.choice([*heads, ""]) + f" {number} " + "q" * dice.randrange(1, 120)
        id = str(number)
        scheduler.add(request(id, prompt, dice.randrange(1, 40), stable_boundary=len(prompt) - 5), engine.clock.now)
        if number % 3 == 0:
            for _ in range(dice.randrange(4)):
                work(scheduler, engine, cache, budget, total, ended)
            scheduler.cancel(id)
        while scheduler.tally.waiting > 8:
            work(scheduler, engine, cache, budget, total, ended)
    while scheduler.has_work:
        work(scheduler, engine, cache, budget, total, ended)
    assert len(ended) == 200
    assert scheduler.tally.cancelled > 20
    assert scheduler.tally.cache_evicted > 20
    assert scheduler.tally.cached_tokens > 1000
    assert engine.open_rows == frozenset()
    assert engine.misused == []
    cache.check()
    cache.clear()
    assert cache.stats().bytes == 0


def work(
    scheduler: Scheduler, engine: RecordingEngine, cache: RamPrefixCache, budget: int, total: int, ended: set[str]
) -> None:
    """One step; no budget may be exceeded after it, by what rows really hold."""
    for delivery in scheduler.step():
        if delivery.is_last:
            assert delivery.id not in ended
            ended.add(delivery.id)
    rows = sum(snapshot.nbytes for row in engine.open_rows if (snapshot := engine.snapshot(row)))
    assert cache.stats().bytes <= budget
    assert cache.stats().bytes + rows <= total
