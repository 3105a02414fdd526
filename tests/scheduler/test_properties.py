"""The scheduler under random arrivals, lengths, cancels and faults, against requests run alone.

Prompts share beginnings, caches are absent, ample or so small that they evict all the time, and states can be trimmed,
cannot, or cannot be kept at all. The toy logits depend on every token, so a wrong prefix is a wrong answer.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.exchange import EngineFinish, EngineRequest
from dragoman.core.request import CacheHints
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.scheduler import Delivery, Scheduler
from tests.scheduler.recording import RecordingEngine

CONTEXT = 160
HEADS = ("", "q" * 40, "q" * 40 + "r" * 50, "s" * 100, "s" * 33)
RULES = (
    FakeRule(match="#pieces", pieces=("one ", "two ", "three")),
    FakeRule(match="#loop", pieces=("la ", "li "), repeat=True),
    FakeRule(match="#fail", pieces=("x",), repeat=True, fail_after=3),
    FakeRule(match="#open", open_error=True),
    FakeRule(match="#read", prefill_error=True),
)
KINDS = ("#pieces", "#loop", "#fail", "#open", "#read", *("",) * 6)


@dataclass(frozen=True)
class Room:
    """What the engine and the scheduler are like; `budget` of the cache in tokens, None without one."""

    lanes: int = 1
    chunk: int = 1000
    idle: int = 1000
    budget: int | None = None
    total: int | None = None
    trimmable: bool = True
    snapshots: bool = True


@dataclass(frozen=True)
class Visit:
    """A request, the step before which it arrives and the one before which it is cancelled."""

    request: EngineRequest
    arrival: int
    cancel: int | None


@dataclass
class Outcome:
    """Everything a run brought."""

    engine: RecordingEngine
    scheduler: Scheduler
    cache: RamPrefixCache | None
    deliveries: list[Delivery] = field(default_factory=list[Delivery])

    def of(self, id: str) -> list[Delivery]:
        return [delivery for delivery in self.deliveries if delivery.id == id]


ROOMS = st.builds(
    Room,
    lanes=st.integers(1, 4),
    chunk=st.sampled_from([1, 3, 16, 256]),
    idle=st.sampled_from([5, 16, 256]),
    budget=st.sampled_from([None, 60, 150, 400, 1 << 20]),
    total=st.sampled_from([None, None, 200, 500]),
    trimmable=st.booleans(),
    snapshots=st.sampled_from([True, True, True, False]),
)


@st.composite
def requests(draw: st.DrawFn, id: str) -> EngineRequest:
    prompt = draw(st.sampled_from(HEADS)) + draw(st.sampled_from(["", "t" * 35, f"<{id}>"]))
    prompt += draw(st.sampled_from(KINDS)) + "u" * draw(st.integers(1, 12))
    return EngineRequest(
        id=id,
        prompt=tuple(prompt.encode()),
        max_tokens=draw(st.integers(1, 20)),
        stop_tokens=frozenset((257, 259)),
        sampling=SamplingSpec(
            temperature=draw(st.sampled_from([0.0, 0.7, 1.5])),
            seed=draw(st.integers(0, 2**64 - 1)),
            presence_penalty=0.5,
        ),
        logprobs=draw(st.sampled_from([None, 0, 2])),
        prompt_logprobs=draw(st.sampled_from([None, None, None, 1])),
        progress=draw(st.booleans()),
        stable_boundary=draw(st.none() | st.integers(0, len(prompt))),
        cache=CacheHints(session=draw(st.sampled_from([None, "s"])), reuse=draw(st.sampled_from([True, True, False]))),
        namespace=draw(st.sampled_from(["", "", "", "other"])),
    )


@st.composite
def visits(draw: st.DrawFn) -> list[Visit]:
    planned: list[Visit] = []
    arrival = 0
    for number in range(draw(st.integers(1, 10))):
        arrival += draw(st.sampled_from([0, 0, 1, 3, 12]))
        stay = draw(st.none() | st.integers(0, 15))
        planned.append(Visit(draw(requests(str(number))), arrival, None if stay is None else arrival + stay))
    return planned


def run(planned: list[Visit], room: Room) -> Outcome:
    """All deliveries of a run; checks what must hold after every step."""
    script = FakeScript(
        rules=RULES, default="logits", trimmable=room.trimmable, snapshots=room.snapshots, token_bytes=1
    )
    engine = RecordingEngine(script, lanes=room.lanes, context_length=CONTEXT)
    cache = None if room.budget is None else RamPrefixCache(room.budget)
    limits = SchedulerLimits(prefill_chunk=room.chunk, prefill_chunk_idle=room.idle, total_budget=room.total)
    outcome = Outcome(engine, Scheduler(engine, limits, cache, clock=engine.clock), cache)
    for step in range(5000):
        for visit in planned:
            if visit.arrival == step:
                outcome.scheduler.add(visit.request, engine.clock.now)
        for visit in planned:
            if visit.cancel == step:
                outcome.scheduler.cancel(visit.request.id)
        check_step(outcome, room)
        if not outcome.scheduler.has_work and all(visit.arrival <= step for visit in planned):
            assert engine.misused == []
            return outcome
    raise AssertionError("the scheduler does not come to an end")


def check_step(outcome: Outcome, room: Room) -> None:
    engine, scheduler = outcome.engine, outcome.scheduler
    begun = len(engine.calls)
    outcome.deliveries += scheduler.step()
    calls = engine.calls[begun:]
    most = max(room.chunk, room.idle)
    assert sum(count for name, _, count in calls if name == "prefill") <= most + most // 4
    assert sum(name == "step" for name, _, _ in calls) <= 1
    assert len(engine.open_rows) == scheduler.tally.running <= room.lanes
    if outcome.cache is not None and room.budget is not None:
        outcome.cache.check()
        cached = outcome.cache.stats().bytes
        assert cached <= room.budget
        if room.total is not None:
            rows = [engine.snapshot(row) for row in engine.open_rows]
            assert cached + sum(snapshot.nbytes for snapshot in rows if snapshot) <= room.total


@functools.cache
def alone(request: EngineRequest) -> tuple[Delivery, ...]:
    """What it brings on a machine of its own, with nothing kept and nothing shared."""
    return tuple(run([Visit(request, 0, None)], Room()).deliveries)


@given(visits(), ROOMS)
@settings(max_examples=60, deadline=None)
def test_case_30_every_request_ends_exactly_once_and_as_if_it_were_alone(planned: list[Visit], room: Room) -> None:
    outcome = run(planned, room)
    for visit in planned:
        check_course(outcome.of(visit.request.id), visit)
    assert outcome.engine.open_rows == frozenset()
    tally = outcome.scheduler.tally
    assert tally.added == tally.finished + tally.cancelled + tally.failed == len(planned)
    assert tally.completion_tokens == sum(len(delivery.chunk.tokens) for delivery in outcome.deliveries)


def check_course(course: list[Delivery], visit: Visit) -> None:
    """One request's deliveries: in order, with one end, and the same as alone up to a cancel."""
    assert [delivery.is_last for delivery in course] == [False] * (len(course) - 1) + [True]
    expected = alone(visit.request)
    last = course[-1]
    if last.chunk.finish is EngineFinish.CANCELLED:
        assert visit.cancel is not None
        assert sampled(course) == sampled(expected)[: len(sampled(course))]
        assert scored(course) == scored(expected)[: len(scored(course))]
    else:
        assert sampled(course) == sampled(expected)
        assert scored(course) == scored(expected)
        assert last.chunk.finish is expected[-1].chunk.finish
        assert str(last.error) == str(expected[-1].error)
    if last.chunk.report is not None:
        report = last.chunk.report
        assert report.completion_tokens == len(sampled(course))
        assert min(report.queued_ms, report.prompt_ms, report.predicted_ms) >= 0
    check_progress(course, visit.request)


def sampled(course: list[Delivery] | tuple[Delivery, ...]) -> list[object]:
    """The tokens with their log probabilities."""
    chunks = [delivery.chunk for delivery in course if delivery.chunk.tokens]
    return [(chunk.tokens, chunk.logprobs) for chunk in chunks]


def scored(course: list[Delivery] | tuple[Delivery, ...]) -> list[object]:
    """The log probabilities of the prompt."""
    return [entry for delivery in course for entry in delivery.chunk.prompt_logprobs]


def check_progress(course: list[Delivery], request: EngineRequest) -> None:
    begun = [delivery.chunk.started for delivery in course if delivery.chunk.started is not None]
    assert len(begun) <= 1
    if begun and (not request.cache.reuse or request.prompt_logprobs is not None):
        assert begun == [0]
    seen = [delivery.chunk.progress.processed for delivery in course if delivery.chunk.progress]
    if not request.progress:
        assert seen == []
    elif sampled(course):
        assert seen[0] == begun[0]
        assert seen[-1] == len(request.prompt)
    assert seen == sorted(set(seen))


@given(visits(), ROOMS)
@settings(max_examples=30, deadline=None)
def test_only_requests_that_share_a_beginning_are_passed(planned: list[Visit], room: Room) -> None:
    """Rows are given in order of arrival; who is passed waited for a prefill that is also its own."""
    outcome = run(planned, room)
    started = [int(delivery.id) for delivery in outcome.deliveries if delivery.chunk.started is not None]
    assert max(Counter(started).values(), default=0) <= 1
    for place, number in enumerate(started):
        passed = [later for later in started[:place] if later > number]
        assert not passed or any(
            common(planned[number].request.prompt, other.request.prompt) >= 32
            for other in planned
            if other is not planned[number]
        )


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    pairs = list(zip(one, other, strict=False))
    return next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))


@given(visits(), ROOMS)
@settings(max_examples=15, deadline=None)
def test_all_rows_are_there_again_afterwards(planned: list[Visit], room: Room) -> None:
    outcome = run(planned, room)
    for number in range(room.lanes):
        wanted = EngineRequest(id=f"after{number}", prompt=tuple(b"#loop"), max_tokens=2)
        outcome.scheduler.add(wanted, outcome.engine.clock.now)
    outcome.scheduler.step()
    if room.total is None and min(room.chunk, room.idle) >= 16:
        assert outcome.engine.open_rows == frozenset(range(room.lanes))
    while outcome.scheduler.has_work:
        outcome.scheduler.step()


@given(st.integers(0, 1000), st.sampled_from([40, 250, 1 << 20]), st.booleans())
@settings(max_examples=10, deadline=None)
def test_case_30_sixteen_markers_in_three_rounds_never_cross(shift: int, budget: int, trimmable: bool) -> None:
    """Greedy answers, of which each depends on its prompt's marker, are the same in every round as alone."""
    room = Room(lanes=4, chunk=16, idle=32, budget=budget, trimmable=trimmable)
    planned = [
        Visit(marked(f"{turn}.{number}", number, shift), turn * 40 + number * shift % 7, None)
        for turn in range(3)
        for number in range(16)
    ]
    outcome = run(planned, room)
    answers = {str(sampled(alone(marked("alone", number, shift)))) for number in range(16)}
    assert len(answers) == 16
    for visit in planned:
        number = int(visit.request.id.partition(".")[2])
        assert sampled(outcome.of(visit.request.id)) == sampled(alone(marked("alone", number, shift)))
    assert outcome.scheduler.tally.cache_evicted > 0 or budget != 250


def marked(id: str, number: int, shift: int) -> EngineRequest:
    prompt = f"{HEADS[(number + shift) % 5]}marker-{number:02}"
    sampling = SamplingSpec(temperature=0.0, seed=1)
    return EngineRequest(id=id, prompt=tuple(prompt.encode()), max_tokens=12, sampling=sampling)
