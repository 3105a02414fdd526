"""Prompts that arrive at once are given to the engine at once, and each of them fares as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.errors import EngineFailure
from dragoman.core.exchange import EngineFinish
from dragoman.core.logprobs import TokenLogprobs
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.sequence import Sequence as Waiting
from dragoman.scheduler.shares import shares_of
from tests.scheduler.driving import FOREVER, cached_of, chunks_of, drained, last_of, request, scheduler_of, text_of
from tests.scheduler.recording import RecordingEngine

LOGITS = FakeScript(default="logits")


def test_prompts_that_come_together_are_read_together() -> None:
    engine = RecordingEngine(FOREVER, lanes=8)
    scheduler = scheduler_of(engine)
    for number in range(8):
        scheduler.add(request(str(number), f"{number}" * 38), 100.0)
    scheduler.step()
    assert engine.together == [[(row, 37) for row in range(8)]], "296 tokens are near enough to a chunk of 256"
    assert engine.named("step") == [("step", tuple(range(8)), 0)]


def test_one_prompt_is_read_as_one() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", "x" * 38), 100.0)
    scheduler.add(request("b", "y"), 100.0)
    scheduler.step()
    assert engine.named("prefill") == [("prefill", 0, 37)]
    assert engine.together == []
    assert engine.named("step") == [("step", (0, 1), 0)]


def test_a_prompt_is_not_begun_with_the_last_crumbs_of_a_chunk() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine, prefill_chunk=100)
    for id, length in (("a", 91), ("b", 201), ("c", 11)):
        scheduler.add(request(id, id * length), 100.0)
    for _ in range(4):
        scheduler.step()
    assert engine.together == [[(1, 100), (2, 10)]]
    assert engine.named("prefill") == [("prefill", 0, 90), ("prefill", 1, 100), ("prefill", 1, 100), ("prefill", 2, 10)]


def test_each_row_stops_where_its_state_is_wanted() -> None:
    engine = RecordingEngine(LOGITS)
    cache = RamPrefixCache(1 << 20)
    scheduler = scheduler_of(engine, cache)
    scheduler.add(request("a", "a" * 100, 2, stable_boundary=70), 100.0)
    scheduler.add(request("b", "b" * 111, 2, stable_boundary=80), 100.0)
    scheduler.add(request("c", "c" * 50, 2), 100.0)
    scheduler.step()
    assert engine.together == [[(0, 70), (1, 80), (2, 49)], [(0, 29), (1, 30)]]
    drained(scheduler)
    scheduler.add(request("d", "a" * 70 + "!", 2), 100.0)
    scheduler.add(request("e", "b" * 80 + "!", 2), 100.0)
    deliveries = drained(scheduler)
    assert (cached_of(deliveries, "d"), cached_of(deliveries, "e")) == (70, 80)
    assert engine.misused == []


def test_each_row_reports_its_own_progress_and_scores() -> None:
    engine = RecordingEngine(LOGITS)
    scheduler = scheduler_of(engine, prefill_chunk=40)
    scheduler.add(request("a", "a" * 21, 1, progress=True), 100.0)
    scheduler.add(request("b", "b" * 61, 1, progress=True, prompt_logprobs=0), 100.0)
    deliveries = drained(scheduler)
    assert engine.together == [[(0, 20), (1, 20)]]
    progress = {
        id: [chunk.progress.processed for chunk in chunks_of(deliveries, id) if chunk.progress] for id in ("a", "b")
    }
    assert progress == {"a": [0, 21], "b": [0, 20, 61]}
    assert [len(chunk.prompt_logprobs) for chunk in chunks_of(deliveries, "b") if chunk.prompt_logprobs] == [20, 40]
    assert not any(chunk.prompt_logprobs for chunk in chunks_of(deliveries, "a"))


def test_a_row_that_fails_fails_alone() -> None:
    script = FakeScript(rules=(FakeRule(match="bad", prefill_error=True), FakeRule(pieces=("fine",))))
    engine = RecordingEngine(script)
    scheduler = scheduler_of(engine)
    for id, prompt in (("a", "good"), ("b", "bad"), ("c", "good too")):
        scheduler.add(request(id, prompt, 1), 100.0)
    deliveries = drained(scheduler)
    assert engine.together == [[(0, 3), (1, 2), (2, 7)]]
    assert (text_of(engine, deliveries, "a"), text_of(engine, deliveries, "c")) == ("fine", "fine")
    assert "failed while reading the prompt: RuntimeError: scripted failure" in str(last_of(deliveries, "b").error)
    tally = scheduler.tally
    assert (tally.failed, tally.finished, tally.prompt_tokens) == (1, 2, 4 + 8)
    assert engine.open_rows == frozenset()


def test_an_engine_that_breaks_off_or_miscounts_fails_all_it_was_given() -> None:
    class Broken(RecordingEngine):
        def prefill_many(self, work: Sequence[tuple[int, int]]) -> list[Sequence[TokenLogprobs] | Exception]:
            if len(self.together) == 0:
                return super().prefill_many(work)[:-1]
            raise RuntimeError("device lost")

    engine = Broken(FOREVER)
    scheduler = scheduler_of(engine)
    for reason in ("1 results for 2 rows", "RuntimeError: device lost"):
        for id in "ab":
            scheduler.add(request(id, id * 20), 100.0)
        deliveries = drained(scheduler)
        for id in "ab":
            error = last_of(deliveries, id).error
            assert isinstance(error, EngineFailure)
            assert reason in error.message
        assert engine.open_rows == frozenset()
    scheduler.add(request("c", "cc", 1), 100.0)
    assert last_of(drained(scheduler), "c").chunk.finish is EngineFinish.LENGTH


@given(st.integers(1, 300), st.lists(st.integers(1, 400), min_size=1, max_size=12))
def test_shares_are_a_chunk_or_a_little_more_and_go_to_the_oldest(chunk: int, lengths: list[int]) -> None:
    rows = [Waiting(request(str(i), "x" * length), 0.0, 8192) for i, length in enumerate(lengths)]
    shares = shares_of(chunk, rows)
    counts = [share for _, share in shares]
    wanting = [row for row in rows if row.unprefilled]
    assert [row for row, _ in shares] == wanting[: len(shares)], "in order, and none is passed over"
    assert all(0 < share <= row.unprefilled for row, share in shares)
    assert all(share == row.unprefilled for row, share in shares[:-1])
    assert sum(counts) <= chunk + chunk // 4
    if sum(counts) > chunk or len(counts) < len(wanting):
        assert sum(counts) >= chunk - chunk // 4, "no chunk stays empty while someone waits"
    if sum(counts) > chunk:
        assert counts[-1] == shares[-1][0].unprefilled
    elif shares and counts[-1] < shares[-1][0].unprefilled:
        assert sum(counts) == chunk
        assert counts[-1] > chunk // 4
