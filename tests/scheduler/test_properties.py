"""The scheduler under random arrivals, lengths, cancels and faults, against requests run alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.exchange import EngineFinish, EngineRequest
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.scheduler import Delivery, Scheduler
from tests.scheduler.recording import RecordingEngine

CONTEXT = 60
SCRIPT = FakeScript(
    rules=(
        FakeRule(match="#pieces", pieces=("one ", "two ", "three")),
        FakeRule(match="#loop", pieces=("la ", "li "), repeat=True),
        FakeRule(match="#fail", pieces=("x",), repeat=True, fail_after=3),
        FakeRule(match="#open", open_error=True),
        FakeRule(match="#read", prefill_error=True),
    ),
    default="logits",
)


@dataclass(frozen=True)
class Visit:
    """A request, the step before which it arrives and the one before which it is cancelled."""

    request: EngineRequest
    arrival: int
    cancel: int | None


@st.composite
def requests(draw: st.DrawFn, id: str) -> EngineRequest:
    kind = draw(st.sampled_from(["#pieces", "#loop", "#fail", "#open", "#read", "", "", ""]))
    filler = draw(st.integers(1, CONTEXT - 12))
    temperature = draw(st.sampled_from([0.0, 0.7, 1.5]))
    return EngineRequest(
        id=id,
        prompt=tuple(b"q" * filler + kind.encode()),
        max_tokens=draw(st.integers(1, 20)),
        stop_tokens=frozenset((257, 259)),
        sampling=SamplingSpec(temperature=temperature, seed=draw(st.integers(0, 2**64 - 1)), presence_penalty=0.5),
        logprobs=draw(st.sampled_from([None, 0, 2])),
        progress=draw(st.booleans()),
    )


@st.composite
def visits(draw: st.DrawFn) -> list[Visit]:
    planned: list[Visit] = []
    arrival = 0
    for number in range(draw(st.integers(1, 10))):
        arrival += draw(st.sampled_from([0, 0, 1, 3]))
        stay = draw(st.none() | st.integers(0, 15))
        planned.append(Visit(draw(requests(str(number))), arrival, None if stay is None else arrival + stay))
    return planned


def run(planned: list[Visit], lanes: int, chunk: int) -> tuple[list[Delivery], RecordingEngine, Scheduler]:
    """All deliveries of a run; checks what must hold after every step."""
    engine = RecordingEngine(SCRIPT, lanes=lanes, context_length=CONTEXT)
    scheduler = Scheduler(engine, SchedulerLimits(prefill_chunk=chunk), clock=engine.clock)
    deliveries: list[Delivery] = []
    for step in range(2000):
        for visit in planned:
            if visit.arrival == step:
                scheduler.add(visit.request, engine.clock.now)
        for visit in planned:
            if visit.cancel == step:
                scheduler.cancel(visit.request.id)
        begun = len(engine.calls)
        deliveries += scheduler.step()
        check_step(engine.calls[begun:], chunk)
        assert len(engine.open_rows) == scheduler.tally.running <= lanes
        if not scheduler.has_work and all(visit.arrival <= step for visit in planned):
            return deliveries, engine, scheduler
    raise AssertionError("the scheduler does not come to an end")


def check_step(calls: list[tuple[str, object, int]], chunk: int) -> None:
    assert sum(count for name, _, count in calls if name == "prefill") <= chunk
    assert sum(name == "step" for name, _, _ in calls) <= 1


@given(visits(), st.integers(1, 4), st.sampled_from([1, 3, 16, 256]))
@settings(max_examples=150, deadline=None)
def test_every_request_ends_exactly_once_and_as_if_it_were_alone(planned: list[Visit], lanes: int, chunk: int) -> None:
    deliveries, engine, scheduler = run(planned, lanes, chunk)
    by_id: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        by_id[delivery.id].append(delivery)
    for visit in planned:
        check_course(by_id[visit.request.id], visit)
    assert engine.open_rows == frozenset()
    tally = scheduler.tally
    assert tally.added == tally.finished + tally.cancelled + tally.failed == len(planned)
    assert tally.completion_tokens == sum(len(delivery.chunk.tokens) for delivery in deliveries)


def check_course(course: list[Delivery], visit: Visit) -> None:
    """One request's deliveries: in order, with one end, and the same as alone up to a cancel."""
    assert [delivery.is_last for delivery in course] == [False] * (len(course) - 1) + [True]
    alone, _, _ = run([Visit(visit.request, 0, None)], 1, 1000)
    seen, expected = sampled(course), sampled(alone)
    last = course[-1]
    if last.chunk.finish is EngineFinish.CANCELLED:
        assert visit.cancel is not None
        assert seen == expected[: len(seen)]
    else:
        assert seen == expected
        assert last.chunk.finish is alone[-1].chunk.finish
        assert str(last.error) == str(alone[-1].error)
    if last.chunk.report is not None:
        assert last.chunk.report.completion_tokens == len(seen)
        assert min(last.chunk.report.queued_ms, last.chunk.report.prompt_ms, last.chunk.report.predicted_ms) >= 0
    check_progress(course, visit.request)


def sampled(course: list[Delivery]) -> list[object]:
    """The tokens with their log probabilities."""
    chunks = [delivery.chunk for delivery in course if delivery.chunk.tokens]
    return [(chunk.tokens, chunk.logprobs) for chunk in chunks]


def check_progress(course: list[Delivery], request: EngineRequest) -> None:
    assert [delivery.chunk.started for delivery in course if delivery.chunk.started is not None] in ([], [0])
    seen = [delivery.chunk.progress.processed for delivery in course if delivery.chunk.progress]
    if not request.progress:
        assert seen == []
    elif sampled(course):
        assert seen[0] == 0
        assert seen[-1] == len(request.prompt)
    assert seen == sorted(set(seen))


@given(visits(), st.integers(1, 3), st.sampled_from([2, 256]))
@settings(max_examples=50, deadline=None)
def test_rows_are_given_in_order_of_arrival(planned: list[Visit], lanes: int, chunk: int) -> None:
    deliveries, _, _ = run(planned, lanes, chunk)
    started = [int(delivery.id) for delivery in deliveries if delivery.chunk.started is not None]
    assert started == sorted(started)
    assert max(Counter(started).values(), default=0) <= 1


@given(visits(), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_all_rows_are_there_again_afterwards(planned: list[Visit], lanes: int) -> None:
    _, engine, scheduler = run(planned, lanes, 16)
    for number in range(lanes):
        scheduler.add(EngineRequest(id=f"after{number}", prompt=tuple(b"#loop"), max_tokens=2), engine.clock.now)
    scheduler.step()
    assert engine.open_rows == frozenset(range(lanes))
