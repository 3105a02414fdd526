"""Single-flight prefill: what begins alike is computed once, whoever comes when and leaves when."""

from __future__ import annotations

import pytest

from dragoman.cache.prefix import RamPrefixCache
from dragoman.core.exchange import CacheHints, EngineFinish, EngineRequest
from dragoman.core.sampling import SamplingSpec
from dragoman.core.snapshot import Snapshot
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.sharing import common_prefix
from tests.scheduler.driving import cached_of, drained, last_of, request, scheduler_of, text_of
from tests.scheduler.recording import RecordingEngine

SHARED = "".join(chr(97 + i * i % 26) for i in range(512))
TRIMMABLE = [True, False]


def logits_engine(lanes: int = 4, *, trimmable: bool = True, snapshots: bool = True) -> RecordingEngine:
    return RecordingEngine(FakeScript(default="logits", trimmable=trimmable, snapshots=snapshots), lanes=lanes)


def alone(wanted: EngineRequest) -> str:
    engine = logits_engine()
    scheduler = scheduler_of(engine)
    scheduler.add(wanted, 100.0)
    return text_of(engine, drained(scheduler), wanted.id)


def agents(count: int, tail: int = 10) -> list[EngineRequest]:
    """Requests that share SHARED and no token beyond."""
    return [
        request(str(number), SHARED + chr(65 + number) * tail, 6, sampling=SamplingSpec(seed=number, temperature=1.0))
        for number in range(count)
    ]


@pytest.mark.parametrize("trimmable", TRIMMABLE)
@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_eight_requests_that_share_512_tokens_compute_them_once(lanes: int, has_cache: bool, trimmable: bool) -> None:
    engine = logits_engine(lanes, trimmable=trimmable)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20) if has_cache else None, prefill_chunk=100)
    wanted = agents(8)
    for one in wanted:
        scheduler.add(one, 100.0)
    deliveries = drained(scheduler)
    assert engine.prefilled_tokens == 512 + 8 * 9
    assert [cached_of(deliveries, one.id) for one in wanted] == [0] + [512] * 7
    assert scheduler.tally.cached_tokens == 7 * 512
    assert [text_of(engine, deliveries, one.id) for one in wanted] == [alone(one) for one in wanted]
    assert engine.misused == []


@pytest.mark.parametrize("trimmable", TRIMMABLE)
def test_n_answers_to_one_prompt_cost_one_prefill(trimmable: bool) -> None:
    engine = logits_engine(trimmable=trimmable)
    scheduler = scheduler_of(engine, prefill_chunk=100)
    for number in range(8):
        scheduler.add(request(str(number), SHARED, 5, sampling=SamplingSpec(seed=number, temperature=1.0)), 100.0)
    deliveries = drained(scheduler)
    assert engine.prefilled_tokens == 511
    texts = [text_of(engine, deliveries, str(number)) for number in range(8)]
    assert len(set(texts)) > 1, "each with its own seed"


def test_followers_have_no_row_until_they_can_begin() -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine, prefill_chunk=128)
    for one in agents(3):
        scheduler.add(one, 100.0)
    for _ in range(3):
        scheduler.step()
        assert (scheduler.tally.running, scheduler.tally.waiting) == (1, 2)
    scheduler.step()
    scheduler.step()
    assert (scheduler.tally.running, scheduler.tally.waiting) == (3, 0)


def test_one_that_comes_while_the_prefix_is_computed_waits_for_it() -> None:
    engine = logits_engine(4, trimmable=False)
    scheduler = scheduler_of(engine, prefill_chunk=128)
    first, second = agents(2)
    scheduler.add(first, 100.0)
    scheduler.step()
    scheduler.step()
    scheduler.add(second, 100.0)
    assert cached_of(drained(scheduler), "1") == 512
    assert engine.prefilled_tokens == 512 + 2 * 9


def test_one_that_comes_later_forks_from_a_row_that_decodes() -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine)
    first, second = agents(2)
    scheduler.add(EngineRequest(id="0", prompt=first.prompt, max_tokens=500), 100.0)
    for _ in range(6):
        scheduler.step()
    scheduler.add(second, 100.0)
    deliveries = drained(scheduler)
    assert cached_of(deliveries, "1") == 512
    assert text_of(engine, deliveries, "1") == alone(second)


def test_a_turn_forks_from_the_answer_before_it_ends() -> None:
    """The next prompt holds part of the answer that another client still reads."""
    script = FakeScript(rules=(FakeRule(pieces=tuple("abcdefgh"), repeat=True),))
    engine = RecordingEngine(script)
    scheduler = scheduler_of(engine)
    scheduler.add(request("a", SHARED, 500), 100.0)
    for _ in range(12):
        scheduler.step()
    scheduler.add(request("b", SHARED + "abcdefgh" + "!!!", 2), 100.0)
    assert cached_of(drained(scheduler), "b") == 520


def test_different_sharings_of_one_leader() -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine, prefill_chunk=64)
    scheduler.add(request("a", SHARED, 3), 100.0)
    for id, length in (("b", 400), ("c", 100), ("d", 511), ("e", 20)):
        scheduler.add(request(id, SHARED[:length] + "?" * 10, 3), 100.0)
    deliveries = drained(scheduler)
    assert [cached_of(deliveries, id) for id in "abcde"] == [0, 400, 100, 511, 0]
    assert engine.prefilled_tokens == 511 + 9 + 9 + 9 + 29


def test_followers_of_followers() -> None:
    """b and c share more with each other than with a."""
    engine = logits_engine(4, trimmable=False)
    scheduler = scheduler_of(engine, prefill_chunk=64)
    for id, tail in (("a", "A" * 10), ("b", "z" * 200 + "B" * 5), ("c", "z" * 200 + "C" * 5)):
        scheduler.add(request(id, SHARED + tail, 3), 100.0)
    deliveries = drained(scheduler)
    assert [cached_of(deliveries, id) for id in "abc"] == [0, 512, 712]
    assert engine.prefilled_tokens == 512 + 9 + 204 + 4


@pytest.mark.parametrize("trimmable", TRIMMABLE)
@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.parametrize("way", ["cancel", "deadline"])
def test_when_the_leader_goes_a_follower_leads(way: str, has_cache: bool, trimmable: bool) -> None:
    engine = logits_engine(4, trimmable=trimmable)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20) if has_cache else None, prefill_chunk=100)
    wanted = agents(4)
    if way == "deadline":
        wanted[0] = EngineRequest(id="0", prompt=wanted[0].prompt, max_tokens=6, deadline=300.0)
    for one in wanted:
        scheduler.add(one, 100.0)
    scheduler.step()
    scheduler.step()
    if way == "cancel":
        scheduler.cancel("0")
    deliveries = drained(scheduler)
    assert [cached_of(deliveries, one.id) for one in wanted[1:]] == [200, 512, 512]
    assert engine.prefilled_tokens == 512 + 3 * 9
    assert [text_of(engine, deliveries, one.id) for one in wanted[1:]] == [alone(one) for one in wanted[1:]]


def test_when_the_leader_fails_a_follower_leads() -> None:
    rules = (FakeRule(match="A" * 10, prefill_error=True),)
    engine = RecordingEngine(FakeScript(rules=rules, default="logits"))
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20), prefill_chunk=100)
    for one in agents(4):
        scheduler.add(one, 100.0)
    deliveries = drained(scheduler)
    assert last_of(deliveries, "0").error is not None
    assert [cached_of(deliveries, id) for id in "123"] == [0, 512, 512]


def test_a_follower_that_leaves_is_forgotten() -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine, prefill_chunk=100)
    for one in agents(3):
        scheduler.add(one, 100.0)
    scheduler.step()
    scheduler.cancel("1")
    scheduler.cancel("2")
    scheduler.step()
    assert engine.named("prefill") == [("prefill", 0, 100)] * 2
    deliveries = drained(scheduler)
    assert last_of(deliveries, "0").chunk.finish is not None
    assert [call[2] for call in engine.named("prefill")] == [100] * 4 + [121], "not split for nobody"


@pytest.mark.parametrize("odd", [{"namespace": "other"}, {"cache": CacheHints(reuse=False)}, {"prompt_logprobs": 0}])
def test_those_that_must_not_share_do_not(odd: dict[str, object]) -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20))
    scheduler.add(request("a", SHARED), 100.0)
    scheduler.add(request("b", SHARED, **odd), 100.0)
    deliveries = drained(scheduler)
    scheduler.add(request("c", SHARED, **odd), 100.0)
    deliveries += drained(scheduler)
    assert cached_of(deliveries, "b") == 0
    assert cached_of(deliveries, "c") == (511 if "namespace" in odd else 0)
    assert engine.misused == []


def test_a_short_prefix_is_not_worth_a_wait() -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine)
    for number in range(4):
        scheduler.add(request(str(number), SHARED[:31] + str(number) * 40), 100.0)
    scheduler.step()
    assert scheduler.tally.running == 4


def test_an_engine_without_snapshots_lets_everyone_compute() -> None:
    engine = logits_engine(4, snapshots=False)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20), prefill_chunk=1000)
    for one in agents(4):
        scheduler.add(one, 100.0)
    deliveries = drained(scheduler)
    assert [cached_of(deliveries, str(number)) for number in range(4)] == [0] * 4
    for one in agents(4):
        scheduler.add(one, 100.0)
    scheduler.step()
    assert scheduler.tally.running == 4, "nobody waits for what will not come"


@pytest.mark.parametrize("broken", ["snapshot", "open"])
def test_a_snapshot_that_fails_fails_nobody(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RecordingEngine):
        def snapshot(self, row: int) -> Snapshot | None:
            if broken == "snapshot":
                raise MemoryError("no room")
            return super().snapshot(row)

        def open(self, row: int, spec: object, snapshot: Snapshot | None = None, cached: int = 0) -> None:
            super().open(row, spec, snapshot, cached)  # type: ignore[arg-type]
            if snapshot is not None:
                raise ValueError("torn")

    engine = Broken(FakeScript(default="logits"))
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20))
    wanted = agents(4)
    for one in wanted:
        scheduler.add(one, 100.0)
    deliveries = [*scheduler.step(), *scheduler.step(), *scheduler.step(), *scheduler.step()]
    together = scheduler.tally.running
    deliveries += drained(scheduler)
    assert [text_of(engine, deliveries, one.id) for one in wanted] == [alone(one) for one in wanted]
    assert [cached_of(deliveries, one.id) for one in wanted] == [0] * 4
    assert together == (4 if broken == "snapshot" else together), "nobody waits twice in vain"
    assert ("no room" if broken == "snapshot" else "torn") in caplog.text


def test_unrelated_requests_pass_only_where_rows_are_left_over() -> None:
    engine = logits_engine(4)
    scheduler = scheduler_of(engine, prefill_chunk=100)
    for one in agents(3):
        scheduler.add(one, 100.0)
    for id in "xyz":
        scheduler.add(request(id, id * 3, 1000), 100.0)
    started = [delivery.id for delivery in scheduler.step() if delivery.chunk.started is not None]
    assert started == ["0", "x"], "one row leads, two are for the followers"
    deliveries = drained(scheduler)
    order = [delivery.id for delivery in deliveries if delivery.chunk.started is not None]
    assert order == ["1", "2", "y", "z"]


def test_a_follower_is_not_starved_by_those_that_come_later() -> None:
    engine = logits_engine(2)
    scheduler = scheduler_of(engine, prefill_chunk=50)
    for one in agents(2):
        scheduler.add(one, 100.0)
    began: list[str] = []
    for number in range(60):
        scheduler.add(request(f"later{number}", f"{number} things", 3), 100.0)
        began += [delivery.id for delivery in scheduler.step() if delivery.chunk.started is not None]
    assert began[:2] == ["0", "1"]
    assert last_of(drained(scheduler), "later59").chunk.finish is EngineFinish.LENGTH


def test_nobody_waits_for_less_than_the_cache_has_for_it() -> None:
    """A state that cannot be cut: the leader finds nothing to begin with, the next turn of another talk does."""
    engine = logits_engine(4, trimmable=False)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20), prefill_chunk=100)
    talk = SHARED[:400] + "T" * 100
    scheduler.add(request("turn 1", talk + "primer", 3, stable_boundary=500), 100.0)
    drained(scheduler)
    scheduler.add(request("other", SHARED[:400] + "O" * 300, 3), 100.0)
    scheduler.step()
    scheduler.add(request("turn 2", talk + "next", 3), 100.0)
    deliveries = scheduler.step()
    assert cached_of([*deliveries, *drained(scheduler)], "turn 2") == 500
    assert [delivery.id for delivery in deliveries if delivery.chunk.started is not None] == ["turn 2"]


def test_a_queued_request_that_the_cache_serves_splits_no_prefill() -> None:
    engine = logits_engine(1)
    scheduler = scheduler_of(engine, RamPrefixCache(1 << 20), prefill_chunk=1000)
    scheduler.add(request("a", SHARED[:480], 1), 100.0)
    drained(scheduler)
    engine.calls.clear()
    scheduler.add(request("b", SHARED[:500] + "B" * 50, 3), 100.0)
    scheduler.add(request("c", SHARED[:500] + "C" * 50, 3), 100.0)
    drained(scheduler)
    assert [call[2] for call in engine.named("prefill")] == [69, 49]


def test_one_state_that_cannot_be_cut_is_tried_once() -> None:
    class Counting(RecordingEngine):
        snapshots = 0

        def snapshot(self, row: int) -> Snapshot | None:
            self.snapshots += 1
            return super().snapshot(row)

    engine = Counting(FakeScript(rules=(FakeRule(pieces=("la",), repeat=True),), trimmable=False))
    scheduler = scheduler_of(engine)
    for one in agents(3):
        scheduler.add(EngineRequest(id=one.id, prompt=one.prompt, max_tokens=100), 100.0)
    for _ in range(6):
        scheduler.step()
    assert scheduler.tally.running == 3
    before = engine.snapshots
    scheduler.add(request("late", SHARED + "late"), 100.0)
    scheduler.step()
    assert engine.snapshots == before + 1


def test_common_prefix() -> None:
    assert common_prefix((), (1,)) == 0
    assert common_prefix((1, 2, 3), (1, 2, 3)) == 3
    for length in range(20):
        for parted in range(length):
            one = tuple(range(length))
            other = (*one[:parted], -1, *one[parted + 1 :], 7)
            assert common_prefix(one, other) == parted
