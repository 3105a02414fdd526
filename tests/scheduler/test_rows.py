"""What rows are told and what they bring beside tokens: masks, the prompt's log probabilities, lanes, chunk sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.core.exchange import EngineFinish, EngineRequest
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.mask import MaskProvider
from dragoman.engines.fake import FakeScript
from tests.scheduler.driving import FOREVER, chunks_of, drained, last_of, request, scheduler_of, text_of
from tests.scheduler.recording import RecordingEngine

LOGITS = FakeScript(default="logits")


class Spelled:
    """Allows one text, letter by letter."""

    def __init__(self, text: str) -> None:
        self.left = list(text.encode())

    def fill(self, mask: Any) -> bool:
        mask[:] = 0
        mask[self.left[0] // 32] = 1 << self.left[0] % 32
        return True

    def advance(self, token: int) -> None:
        assert token == self.left.pop(0)

    @property
    def complete(self) -> bool:
        return not self.left


def test_a_mask_is_given_to_its_row_and_ends_the_answer() -> None:
    def mask_for(wanted: EngineRequest) -> MaskProvider | None:
        return Spelled("yes") if wanted.grammar is not None else None

    engine = RecordingEngine(LOGITS)
    scheduler = scheduler_of(engine, mask_for=mask_for)
    scheduler.add(request("a", "well?", 20, grammar='%llguidance {}\nstart: "a"'), 100.0)
    scheduler.add(request("b", "well?", 20), 100.0)
    deliveries = drained(scheduler)
    assert text_of(engine, deliveries) == "yes"
    assert last_of(deliveries).chunk.finish is EngineFinish.COMPLETE
    assert len(text_of(engine, deliveries, "b")) == 20
    assert last_of(deliveries, "b").chunk.finish is EngineFinish.LENGTH


def test_a_mask_that_cannot_be_made_ends_that_request_alone() -> None:
    def mask_for(wanted: EngineRequest) -> MaskProvider | None:
        if wanted.id == "a":
            raise InvalidRequest("The schema is too large.")
        return None

    engine = RecordingEngine(LOGITS)
    scheduler = scheduler_of(engine, mask_for=mask_for)
    for id in "ab":
        scheduler.add(request(id), 100.0)
    deliveries = drained(scheduler)
    assert isinstance(last_of(deliveries).error, InvalidRequest)
    assert last_of(deliveries, "b").chunk.finish is EngineFinish.LENGTH
    assert engine.open_rows == frozenset()


def test_the_prompt_is_scored_before_the_first_token() -> None:
    engine = RecordingEngine(LOGITS)
    scheduler = scheduler_of(engine, prefill_chunk=4)
    for _ in range(2):
        scheduler.add(request("a", "0123456789", 3, prompt_logprobs=2, progress=True), 100.0)
        chunks = chunks_of(drained(scheduler))
        scored = [entry for chunk in chunks for entry in chunk.prompt_logprobs]
        assert [entry.chosen.id for entry in scored] == list(b"123456789")
        assert {len(entry.top) for entry in scored} == {2}
        assert [len(chunk.prompt_logprobs) for chunk in chunks if chunk.prompt_logprobs] == [4, 5]
        first = next(place for place, chunk in enumerate(chunks) if chunk.tokens)
        assert not any(chunk.prompt_logprobs for chunk in chunks[first:])


def test_a_prompt_of_one_token_has_nothing_to_score() -> None:
    scheduler = scheduler_of(RecordingEngine(LOGITS))
    scheduler.add(request("a", "x", 2, prompt_logprobs=0), 100.0)
    assert not any(chunk.prompt_logprobs for chunk in chunks_of(drained(scheduler)))


def test_an_engine_that_does_not_score_the_prompt_fails_the_row() -> None:
    class Silent(RecordingEngine):
        def prefill(self, row: int, count: int) -> Sequence[TokenLogprobs]:
            super().prefill(row, count)
            return ()

    scheduler = scheduler_of(Silent(LOGITS))
    scheduler.add(request("a", "xyz", prompt_logprobs=0), 100.0)
    error = last_of(drained(scheduler)).error
    assert isinstance(error, EngineFailure)
    assert "0 log probabilities for 2 tokens" in error.message


def test_the_report_names_the_lane() -> None:
    for lanes, lane in ((4, "batched"), (1, "serial")):
        scheduler = scheduler_of(RecordingEngine(FOREVER, lanes=lanes))
        scheduler.add(request("a"), 100.0)
        report = last_of(drained(scheduler)).chunk.report
        assert report is not None
        assert report.lane == lane


def test_chunks_are_larger_while_nobody_decodes() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine, prefill_chunk=10, prefill_chunk_idle=100)
    scheduler.add(request("a", "a" * 251, 4), 100.0)
    scheduler.step()
    scheduler.add(request("b", "b" * 21, 4), 100.0)
    scheduler.step()
    assert engine.open_rows == frozenset((0, 1)), "a newcomer waits for one chunk at most"
    drained(scheduler)
    assert [call[1:] for call in engine.named("prefill")] == [(0, 100), (0, 100), (0, 50), (1, 20)]
    engine.calls.clear()
    scheduler.add(request("a", "a", 10), 100.0)
    scheduler.step()
    scheduler.add(request("b", "b" * 26, 4), 100.0)
    drained(scheduler)
    assert [call[1:] for call in engine.named("prefill")] == [(1, 10), (1, 10), (1, 5)]


def test_a_row_with_nothing_to_prefill_decodes_though_the_budget_is_spent() -> None:
    engine = RecordingEngine(FOREVER)
    scheduler = scheduler_of(engine, prefill_chunk=4)
    scheduler.add(request("a", "a" * 20), 100.0)
    scheduler.add(request("b", "b"), 100.0)
    scheduler.step()
    assert engine.named("step") == [("step", (1,), 0)]
