"""What the scheduler keeps of rows and what it begins rows with."""

from __future__ import annotations

import logging

import pytest

from dragoman.cache.base import CacheStats, EntryKind, Hit
from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.exchange import CacheHints, EngineFinish
from dragoman.core.snapshot import Snapshot
from dragoman.engines.fake import FakeRule, FakeScript
from tests.scheduler.driving import cached_of, chunks_of, drained, last_of, request, scheduler_of, text_of
from tests.scheduler.recording import RecordingEngine

ANSWER = tuple("the answer is long enough")
SYSTEM = "system: " + "be good. " * 30
TRIMMABLE = [True, False]
Put = tuple[str, int, EntryKind, str | None]


class NotingCache(RamPrefixCache):
    """`puts` are (namespace, length, kind, session)."""

    def __init__(self, budget: int = 1 << 30) -> None:
        super().__init__(budget)
        self.puts: list[Put] = []

    def put(
        self,
        namespace: str,
        tokens: tuple[int, ...],
        snapshot: Snapshot,
        kind: EntryKind = "prompt",
        session: str | None = None,
    ) -> None:
        self.puts.append((namespace, snapshot.length, kind, session))
        super().put(namespace, tokens, snapshot, kind, session)


def engine_of(*, trimmable: bool = True, lanes: int = 4) -> RecordingEngine:
    return RecordingEngine(FakeScript(rules=(FakeRule(pieces=ANSWER),), trimmable=trimmable), lanes=lanes)


@pytest.mark.parametrize("trimmable", TRIMMABLE)
def test_case_32_a_next_turn_computes_only_what_is_new(trimmable: bool) -> None:
    """Turns end in a primer that the next prompt has at another place, so an answer's entry alone is of no use."""
    engine = engine_of(trimmable=trimmable)
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(engine, cache)
    history, boundary = SYSTEM, 0
    for turn in range(5):
        history += f"<user>question {turn}</user>"
        before = engine.prefilled_tokens
        prompt = history + "<primer>"
        stop = engine.tokenizer.stop_tokens
        scheduler.add(request("a", prompt, 50, stop_tokens=stop, stable_boundary=len(history)), 100.0)
        deliveries = drained(scheduler)
        cached = cached_of(deliveries)
        assert engine.prefilled_tokens - before == len(prompt) - 1 - cached
        if turn:
            assert cached >= boundary
        boundary = len(history)
        history += text_of(engine, deliveries).removesuffix("<|eos|>") + "</assistant>"
    assert scheduler.tally.cache_hits == 4
    assert scheduler.tally.cache_misses == 1
    assert engine.misused == []
    cache.check()


@pytest.mark.parametrize("trimmable", TRIMMABLE)
def test_case_32_a_last_turn_that_is_regenerated_is_cached(trimmable: bool) -> None:
    engine = engine_of(trimmable=trimmable)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 30))
    prompt = SYSTEM + "<user>hi</user><primer>"
    texts: list[str] = []
    for _ in range(3):
        scheduler.add(request("a", prompt, 50, stable_boundary=len(prompt) - 8), 100.0)
        deliveries = drained(scheduler)
        texts.append(text_of(engine, deliveries))
    assert cached_of(deliveries) >= len(prompt) - 8
    assert len(set(texts)) == 1


def test_a_prompt_without_a_boundary_is_kept_where_the_answer_cannot_serve_it() -> None:
    for trimmable, kinds in ((True, {"prompt", "answer"}), (False, {"prompt", "answer"})):
        engine = engine_of(trimmable=trimmable)
        cache = NotingCache()
        scheduler = scheduler_of(engine, cache)
        for _ in range(3):
            scheduler.add(request("a", SYSTEM, 20), 100.0)
            deliveries = drained(scheduler)
            assert {kind for _, _, kind, _ in cache.puts} == kinds
        assert cached_of(deliveries) == len(SYSTEM) - 1
        count = sum(kind == "prompt" for _, _, kind, _ in cache.puts)
        assert count == 1, "once to learn that it can be trimmed, or once because it is needed"


def test_what_is_kept_and_as_what() -> None:
    engine = engine_of(trimmable=False)
    cache = NotingCache()
    scheduler = scheduler_of(engine, cache, prefill_chunk=100)
    hints = CacheHints(session="s")
    scheduler.add(request("a", SYSTEM, 8, stable_boundary=200, cache=hints, namespace="n"), 100.0)
    drained(scheduler)
    assert cache.puts == [
        ("n", 200, "boundary", "s"),
        ("n", len(SYSTEM) - 1, "prompt", "s"),
        ("n", len(SYSTEM) + 7, "answer", "s"),
    ]
    assert [call[2] for call in engine.named("prefill")] == [100, 100, len(SYSTEM) - 201]


def test_an_end_close_to_the_boundary_is_not_kept_as_well() -> None:
    cache = NotingCache()
    scheduler = scheduler_of(engine_of(trimmable=False), cache)
    scheduler.add(request("a", SYSTEM, 8, stable_boundary=len(SYSTEM) - 20), 100.0)
    drained(scheduler)
    assert [kind for _, _, kind, _ in cache.puts] == ["boundary", "answer"]


@pytest.mark.parametrize(
    ("length", "boundary", "cuts"),
    [(63, 40, [62]), (64, 40, [40, 23]), (64, 31, [63]), (64, 64, [63]), (64, 63, [63]), (64, 0, [63])],
)
def test_prefill_is_split_at_a_boundary_worth_keeping(length: int, boundary: int, cuts: list[int]) -> None:
    engine = engine_of()
    cache = NotingCache()
    scheduler = scheduler_of(engine, cache)
    scheduler.add(request("a", "p" * length, 2, stable_boundary=boundary), 100.0)
    drained(scheduler)
    assert [call[2] for call in engine.named("prefill")] == cuts
    assert (("", min(boundary, 63), "boundary", None) in cache.puts) == (length == 64 and boundary > 31)


def test_a_boundary_that_is_cached_is_not_kept_again() -> None:
    cache = NotingCache()
    scheduler = scheduler_of(engine_of(trimmable=False), cache)
    for _ in range(2):
        scheduler.add(request("a", SYSTEM, 2, stable_boundary=150), 100.0)
        drained(scheduler)
    assert [length for _, length, kind, _ in cache.puts if kind == "boundary"] == [150]


def test_without_a_cache_nothing_is_split_or_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Sealed(RecordingEngine):
        def snapshot(self, row: int) -> Snapshot | None:
            raise AssertionError("not wanted")

    engine = Sealed(FakeScript(rules=(FakeRule(pieces=ANSWER),)))
    scheduler = scheduler_of(engine, prefill_chunk=200)
    scheduler.add(request("a", SYSTEM, 5, stable_boundary=150), 100.0)
    scheduler.step()
    scheduler.add(request("b", SYSTEM, 5, cache=CacheHints(reuse=False)), 100.0)
    scheduler.step()
    scheduler.cancel("b")
    drained(scheduler)
    assert [call[2] for call in engine.named("prefill")] == [200, len(SYSTEM) - 201, 400 - len(SYSTEM) + 1]
    assert caplog.text == ""


@pytest.mark.parametrize("stage", ["prefill", "decode"])
@pytest.mark.parametrize("trimmable", TRIMMABLE)
def test_case_22_what_a_cancelled_request_computed_is_kept(trimmable: bool, stage: str) -> None:
    engine = engine_of(trimmable=trimmable, lanes=1)
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(engine, cache, prefill_chunk=100)
    scheduler.add(request("a", SYSTEM, 50), 100.0)
    for _ in range({"prefill": 1, "decode": 5}[stage]):
        scheduler.step()
    scheduler.cancel("a")
    assert engine.open_rows == frozenset()
    assert cache.stats().bytes > 0
    assert scheduler.tally.cancelled == 1
    scheduler.add(request("b", SYSTEM + "and more", 3), 100.0)
    deliveries = drained(scheduler)
    whole = len(SYSTEM) if trimmable else len(SYSTEM) - 1
    assert cached_of(deliveries, "b") == {"prefill": 100, "decode": whole}[stage]
    assert text_of(engine, deliveries, "b") == "the"
    assert engine.misused == []


def test_case_22_a_short_or_a_queued_start_leaves_nothing() -> None:
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(engine_of(lanes=1), cache, prefill_chunk=31)
    scheduler.add(request("a", SYSTEM, 50), 100.0)
    scheduler.add(request("b", SYSTEM, 50), 100.0)
    scheduler.step()
    scheduler.cancel("b")
    scheduler.cancel("a")
    drained(scheduler)
    assert cache.stats() == CacheStats(budget=1 << 30, misses=1)


def test_a_row_that_fails_leaves_nothing() -> None:
    rules = (FakeRule(match="bad", pieces=("x",), repeat=True, fail_after=2),)
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(RecordingEngine(FakeScript(rules=rules)), cache)
    scheduler.add(request("a", "bad " * 7, 50), 100.0)
    assert last_of(drained(scheduler)).error is not None
    assert cache.stats().stored == 0


def test_a_cache_that_fails_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RamPrefixCache):
        def take(self, namespace: str, tokens: tuple[int, ...], session: str | None = None) -> Hit | None:
            raise KeyError("lost")

        def put(self, *args: object, **more: object) -> None:
            raise KeyError("full")

    engine = engine_of()
    scheduler = scheduler_of(engine, Broken(1 << 30))
    scheduler.add(request("a", SYSTEM, 3), 100.0)
    deliveries = drained(scheduler)
    assert text_of(engine, deliveries) == "the"
    assert "lost" in caplog.text
    assert "full" in caplog.text


def test_a_miss_tells_its_reason_when_asked_to(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = scheduler_of(engine_of(), RamPrefixCache(1 << 30))
    with caplog.at_level(logging.DEBUG, "dragoman.scheduler"):
        scheduler.add(request("req-7", SYSTEM, 3), 100.0)
        drained(scheduler)
    assert "req-7" in caplog.text
    assert "No prefix is kept yet" in caplog.text


@pytest.mark.parametrize("cached", [0, 100])
def test_progress_and_report_count_what_was_cached(cached: int) -> None:
    engine = engine_of()
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 30), prefill_chunk=64)
    if cached:
        scheduler.add(request("before", SYSTEM[:cached], 1), 100.0)
        drained(scheduler)
    scheduler.add(request("a", SYSTEM, 2, progress=True), 100.0)
    deliveries = drained(scheduler)
    reports = [chunk.progress for chunk in chunks_of(deliveries) if chunk.progress]
    assert [report.processed for report in reports][:2] == [cached, cached + 64]
    assert {(report.cached, report.total) for report in reports} == {(cached, len(SYSTEM))}
    assert cached_of(deliveries) == cached


def test_close_forgets_every_prefix() -> None:
    cache = RamPrefixCache(1 << 30)
    scheduler = scheduler_of(engine_of(), cache)
    scheduler.add(request("a", SYSTEM, 2), 100.0)
    assert last_of(drained(scheduler)).chunk.finish is EngineFinish.LENGTH
    assert scheduler.tally.cache_bytes == cache.stats().bytes > 0
    scheduler.close()
    assert cache.stats().bytes == 0
