"""Putting requests into a scheduler and reading what comes out."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.cache.base import PrefixCache
from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.engines.fake import FakeRule, FakeScript
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.scheduler import Delivery, MaskFor, Scheduler
from tests.scheduler.recording import RecordingEngine

FOREVER = FakeScript(rules=(FakeRule(pieces=("la", "li"), repeat=True),))


def request(id: str, prompt: str = "x", max_tokens: int = 4, **more: object) -> EngineRequest:
    return EngineRequest(id=id, prompt=tuple(prompt.encode()), max_tokens=max_tokens, **more)  # type: ignore[arg-type]


def scheduler_of(
    engine: RecordingEngine, cache: PrefixCache | None = None, mask_for: MaskFor | None = None, **limits: int
) -> Scheduler:
    """One whose chunks are of one size, whoever decodes, unless told."""
    limits.setdefault("prefill_chunk_idle", limits.get("prefill_chunk", 256))
    return Scheduler(engine, SchedulerLimits(**limits), cache, mask_for=mask_for, clock=engine.clock)


def drained(scheduler: Scheduler, most: int = 100_000) -> list[Delivery]:
    deliveries: list[Delivery] = []
    for _ in range(most):
        if not scheduler.has_work:
            return deliveries
        deliveries += scheduler.step()
    raise AssertionError("the scheduler does not come to an end")


def chunks_of(deliveries: Sequence[Delivery], id: str = "a") -> list[TokenChunk]:
    return [delivery.chunk for delivery in deliveries if delivery.id == id]


def text_of(engine: RecordingEngine, deliveries: Sequence[Delivery], id: str = "a") -> str:
    return engine.tokenizer.decode([token for chunk in chunks_of(deliveries, id) for token in chunk.tokens])


def last_of(deliveries: Sequence[Delivery], id: str = "a") -> Delivery:
    (last,) = [delivery for delivery in deliveries if delivery.id == id and delivery.is_last]
    return last


def cached_of(deliveries: Sequence[Delivery], id: str = "a") -> int:
    """Cached tokens as reported at the start, which must be those of the end."""
    (started,) = [chunk.started for chunk in chunks_of(deliveries, id) if chunk.started is not None]
    report = last_of(deliveries, id).chunk.report
    assert report is None or report.cached_tokens == started
    return started
