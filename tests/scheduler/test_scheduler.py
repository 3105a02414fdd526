"""The step loop, one rule at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.core.errors import ContextLengthExceeded, DragomanError, EngineFailure, InvalidRequest, Unavailable
from dragoman.core.exchange import EngineFinish, EngineReport, EngineRequest, Progress, TokenChunk
from dragoman.core.sampling import SamplingSpec
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.limits import SchedulerLimits
from tests.scheduler.driving import FOREVER, chunks_of, drained, last_of, request, scheduler_of, text_of
from tests.scheduler.recording import Clock, RecordingEngine


def test_an_answer_from_start_to_end() -> None:
    engine = RecordingEngine(FakeScript(rules=(FakeRule(pieces=("Hel", "lo")),)))
    scheduler = scheduler_of(engine)
    stop = engine.tokenizer.stop_tokens
    scheduler.add(request("a", "hi you", 10, stop_tokens=stop), 100.0)
    deliveries = drained(scheduler)
    first, *_, last = chunks_of(deliveries)
    assert first == TokenChunk(started=0, row=0, lane="batched")
    assert text_of(engine, deliveries) == "Hello<|eos|>"
    assert last.finish is EngineFinish.EOS
    assert last.tokens == (engine.tokenizer.special("<|eos|>"),)
    assert [chunk.started for chunk in chunks_of(deliveries)] == [0, None, None, None]
    assert engine.open_rows == frozenset()


@pytest.mark.parametrize(
    ("max_tokens", "context", "finish", "sampled"),
    [(3, 100, EngineFinish.LENGTH, 3), (50, 10, EngineFinish.CONTEXT, 6), (6, 10, EngineFinish.LENGTH, 6)],
)
def test_limits_end_an_answer(max_tokens: int, context: int, finish: EngineFinish, sampled: int) -> None:
    engine = RecordingEngine(FOREVER, context_length=context)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", "four", max_tokens), 100.0)
    last = last_of(drained(scheduler)).chunk
    assert last.finish is finish
    assert last.report is not None
    assert last.report.completion_tokens == sampled


def test_times_are_those_of_the_engine() -> None:
    engine = RecordingEngine(FOREVER, clock=Clock())
    scheduler = scheduler_of(engine, prefill_chunk=4)
    scheduler.add(request("a", "123456789", 3), engine.clock.now)
    engine.clock.now += 7
    report = last_of(drained(scheduler)).chunk.report
    assert report == EngineReport(
        prompt_tokens=9,
        completion_tokens=3,
        queued_ms=7000.0,
        prompt_ms=(1 + 2 * 8 + 16) * 1000.0,
        predicted_ms=2 * 16 * 1000.0,
        slot=0,
        lane="batched",
    )


def test_progress_goes_from_the_cached_to_all_tokens() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine, prefill_chunk=3)
    scheduler.add(request("a", "0123456789", 2, progress=True), 100.0)
    chunks = chunks_of(drained(scheduler))
    reports = [chunk.progress for chunk in chunks if chunk.progress]
    assert [(report.processed, report.cached, report.total) for report in reports] == [
        (0, 0, 10),
        (3, 0, 10),
        (6, 0, 10),
        (10, 0, 10),
    ]
    assert reports[-1] == Progress(total=10, cached=0, processed=10, ms=(1 + 2 * 9 + 16) * 1000.0)
    assert [bool(chunk.tokens) for chunk in chunks] == [False] * 4 + [True] * 2
    assert chunks[0].started == 0


def test_a_prompt_of_one_token_has_progress_too() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", "x", 1, progress=True), 100.0)
    assert [chunk.progress.processed for chunk in chunks_of(drained(scheduler)) if chunk.progress] == [0, 1]


def test_running_rows_step_between_the_chunks_of_a_long_prompt() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine, prefill_chunk=8)
    scheduler.add(request("a", "x", 100), 100.0)
    scheduler.step()
    scheduler.add(request("b", "y" * 41, 100), 100.0)
    engine.calls.clear()
    for _ in range(5):
        scheduler.step()
    assert [(name, count) for name, _, count in engine.calls] == [("open", 41)] + [("prefill", 8), ("step", 0)] * 5
    assert engine.calls[-1] == ("step", (0, 1), 0)


def test_one_budget_serves_several_short_prompts() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine, prefill_chunk=8)
    for id in "abcd":
        scheduler.add(request(id, "12345"), 100.0)
    scheduler.step()
    assert engine.named("prefill") == [("prefill", 0, 4), ("prefill", 1, 4)]
    assert engine.named("step") == [("step", (0, 1), 0)]


def test_rows_are_used_again_and_never_more_than_allowed() -> None:
    engine = RecordingEngine(FOREVER, lanes=4)
    scheduler = scheduler_of(engine, max_lanes=2)
    assert scheduler.lanes == 2
    for number in range(6):
        scheduler.add(request(str(number), max_tokens=1 + number % 3), 100.0)
    drained(scheduler)
    assert {row for _, row, _ in engine.named("open")} == {0, 1}
    assert max(len(rows) for _, rows, _ in engine.named("step")) == 2  # type: ignore[arg-type]
    assert engine.open_rows == frozenset()


def test_a_missing_seed_is_random_and_ones_own() -> None:
    seeds: list[int | None] = []

    class Seeds(RecordingEngine):
        def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
            seeds.append(spec.sampling.seed)
            super().open(row, spec, snapshot, cached)

    scheduler = scheduler_of(Seeds(FOREVER))
    for id in "abc":
        scheduler.add(request(id), 100.0)
    scheduler.add(request("d", sampling=SamplingSpec(seed=0, temperature=0.5)), 100.0)
    drained(scheduler)
    assert seeds[3] == 0
    assert len(set(seeds)) == 4
    assert all(seed is not None and 0 <= seed < 2**64 for seed in seeds)


def test_log_probabilities_come_with_their_tokens_only_when_asked_for() -> None:
    class Chatty(RecordingEngine):
        def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
            super().open(row, RowSpec(prompt=spec.prompt, sampling=spec.sampling, logprobs=1), snapshot, cached)

    scheduler = scheduler_of(Chatty(FOREVER))
    scheduler.add(request("a", logprobs=1), 100.0)
    scheduler.add(request("b"), 100.0)
    deliveries = drained(scheduler)
    assert [len(chunk.logprobs) for chunk in chunks_of(deliveries, "a")] == [0, 1, 1, 1, 1]
    assert [len(chunk.logprobs) for chunk in chunks_of(deliveries, "b")] == [0, 0, 0, 0, 0]


# Ends by request


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 6])
def test_case_22_a_cancel_frees_the_row_before_the_next_step(steps: int) -> None:
    """Queued (0 steps), prefilling (1, 2) and decoding (4, 6): the row is another's in the very next step."""
    engine = RecordingEngine(FOREVER, lanes=1)
    scheduler = scheduler_of(engine, prefill_chunk=4)
    scheduler.add(request("a", "0123456789ab", 2000), 100.0)
    for _ in range(steps):
        scheduler.step()
    scheduler.add(request("b", "x", 2), 100.0)
    scheduler.cancel("a")
    assert engine.open_rows == frozenset()
    assert scheduler.tally.cancelled == 1
    deliveries = scheduler.step()
    last = last_of(deliveries).chunk
    assert last.finish is EngineFinish.CANCELLED
    assert last.report is not None
    assert last.report.completion_tokens == max(0, steps - 2)
    assert text_of(engine, deliveries, "b") == "la"
    assert chunks_of(drained(scheduler), "a") == []


def test_cancelling_the_unknown_and_the_ended_does_nothing() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", max_tokens=1), 100.0)
    drained(scheduler)
    scheduler.cancel("a")
    scheduler.cancel("b")
    assert not scheduler.has_work
    assert scheduler.tally.cancelled == 0


def test_the_others_move_up_when_one_leaves_the_queue() -> None:
    engine = RecordingEngine(FOREVER, lanes=1)
    scheduler = scheduler_of(engine)
    for id in "abcd":
        scheduler.add(request(id, max_tokens=1), 100.0)
    scheduler.cancel("b")
    started = [delivery.id for delivery in drained(scheduler) if delivery.chunk.started is not None]
    assert started == ["a", "c", "d"]


def test_fail_all_ends_every_request_once() -> None:
    engine = RecordingEngine(FOREVER, lanes=2)
    scheduler = scheduler_of(engine, prefill_chunk=2)
    for id, prompt in (("a", "x"), ("b", "long prompt"), ("c", "x")):
        scheduler.add(request(id, prompt, 100), 100.0)
    scheduler.step()
    scheduler.fail_all(Unavailable("bye"))
    ends = drained(scheduler)
    assert sorted(delivery.id for delivery in ends) == ["a", "b", "c"]
    assert all(isinstance(delivery.error, Unavailable) for delivery in ends)
    assert engine.open_rows == frozenset()
    assert scheduler.tally.failed == 3


# Failures


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (EngineRequest(id="a", prompt=(), max_tokens=1), InvalidRequest),
        (EngineRequest(id="a", prompt=(1,), max_tokens=0), InvalidRequest),
        (EngineRequest(id="a", prompt=(1,) * 8, max_tokens=1), ContextLengthExceeded),
        (EngineRequest(id="a", prompt=(1, 999999), max_tokens=1), InvalidRequest),
    ],
)
def test_what_can_never_run_ends_with_an_error(bad: EngineRequest, error: type[DragomanError]) -> None:
    engine = RecordingEngine(FOREVER, context_length=8)
    scheduler = scheduler_of(engine)
    scheduler.add(bad, 100.0)
    deliveries = drained(scheduler)
    assert isinstance(last_of(deliveries).error, error)
    assert len(deliveries) == 1
    assert engine.open_rows == frozenset()


def test_an_id_in_use_is_refused() -> None:
    scheduler = scheduler_of(RecordingEngine(FOREVER, lanes=1))
    for id in "ab":
        scheduler.add(request(id), 100.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="has not ended"):
            scheduler.add(request("a"), 100.0)
        with pytest.raises(ValueError, match="has not ended"):
            scheduler.add(request("b"), 100.0)
        scheduler.step()
    drained(scheduler)
    scheduler.add(request("a"), 100.0)
    assert last_of(drained(scheduler)).chunk.finish is EngineFinish.LENGTH


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (FakeRule(match="bad", pieces=("a",), repeat=True, fail_after=1), "failed while generating: scripted failure"),
        (FakeRule(match="bad", open_error=True), "failed while opening a row: RuntimeError: scripted failure"),
        (FakeRule(match="bad", prefill_error=True), "failed while reading the prompt: RuntimeError: scripted failure"),
    ],
)
def test_case_34_a_fault_of_one_row_ends_that_row_alone(fault: FakeRule, reason: str) -> None:
    engine = RecordingEngine(FakeScript(rules=(fault, *FOREVER.rules)))
    scheduler = scheduler_of(engine)
    for id, prompt in (("a", "good"), ("b", "good"), ("x", "bad"), ("c", "good")):
        scheduler.add(request(id, prompt, 6), 100.0)
    deliveries = drained(scheduler)
    error = last_of(deliveries, "x").error
    assert isinstance(error, EngineFailure)
    assert reason in error.message
    assert {text_of(engine, deliveries, id) for id in "abc"} == {"lalilalilali"}
    assert engine.open_rows == frozenset()
    assert (scheduler.tally.finished, scheduler.tally.failed) == (3, 1)


def test_case_34_a_step_that_raises_ends_the_running_rows_and_the_queue_goes_on() -> None:
    rules = (FakeRule(match="bad", pieces=("a",), repeat=True, raise_after=2), *FOREVER.rules)
    engine = RecordingEngine(FakeScript(rules=rules), lanes=4)
    scheduler = scheduler_of(engine)
    for id, prompt in (("a", "good"), ("b", "good"), ("x", "bad"), ("c", "good"), ("d", "good"), ("e", "good")):
        scheduler.add(request(id, prompt, 6), 100.0)
    deliveries = drained(scheduler)
    for id in "abxc":
        assert isinstance(last_of(deliveries, id).error, EngineFailure)
        assert len(chunks_of(deliveries, id)) == 4, "started, two tokens, the error"
    for id in "de":
        assert last_of(deliveries, id).chunk.finish is EngineFinish.LENGTH
        assert text_of(engine, deliveries, id) == "lalilalilali"
    assert engine.open_rows == frozenset()


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("device lost"), AssertionError()])
def test_case_34_any_exception_of_a_step_is_survived(fault: Exception) -> None:
    class Breaking(RecordingEngine):
        broken = True

        def step(self, rows: Sequence[int]) -> list[RowStep]:
            if self.broken:
                raise fault
            return super().step(rows)

    engine = Breaking(FOREVER)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a"), 100.0)
    error = last_of(drained(scheduler)).error
    assert isinstance(error, EngineFailure)
    assert type(fault).__name__ in error.message
    engine.broken = False
    scheduler.add(request("a"), 100.0)
    assert last_of(drained(scheduler)).error is None


def test_an_engine_that_breaks_its_contract_fails_the_rows() -> None:
    class Short(RecordingEngine):
        def step(self, rows: Sequence[int]) -> list[RowStep]:
            return super().step(rows)[1:]

    class Silent(RecordingEngine):
        def step(self, rows: Sequence[int]) -> list[RowStep]:
            return [RowStep(step.token) for step in super().step(rows)]

    for engine in (Short(FOREVER), Silent(FOREVER)):
        scheduler = scheduler_of(engine)
        scheduler.add(request("a", logprobs=1), 100.0)
        assert isinstance(last_of(drained(scheduler)).error, EngineFailure)
        assert engine.open_rows == frozenset()


def test_a_close_that_raises_does_not_lose_the_row() -> None:
    class Sticky(RecordingEngine):
        def close(self, row: int) -> None:
            super().close(row)
            raise RuntimeError("stuck")

    scheduler = scheduler_of(Sticky(FOREVER, lanes=1))
    for id in "ab":
        scheduler.add(request(id, max_tokens=1), 100.0)
    deliveries = drained(scheduler)
    assert last_of(deliveries, "a").chunk.finish is last_of(deliveries, "b").chunk.finish is EngineFinish.LENGTH


def test_the_tally_counts_what_was_processed() -> None:
    engine = RecordingEngine(FOREVER, lanes=1)
    scheduler = scheduler_of(engine, prefill_chunk=3)
    for id in "ab":
        scheduler.add(request(id, "0123456789", 2), 100.0)
    scheduler.step()
    scheduler.step()
    tally = scheduler.tally
    assert (tally.running, tally.waiting, tally.added, tally.prompt_tokens, tally.completion_tokens) == (1, 1, 2, 6, 0)
    drained(scheduler)
    tally = scheduler.tally
    assert (tally.running, tally.waiting, tally.finished) == (0, 0, 2)
    assert (tally.prompt_tokens, tally.completion_tokens) == (20, 4)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_lanes": 0},
        {"prefill_chunk": 0},
        {"prefill_chunk_idle": 0},
        {"max_waiting": -1},
        {"kv_budget": 0},
        {"total_budget": 0},
    ],
)
def test_impossible_limits_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        SchedulerLimits(**limits)
