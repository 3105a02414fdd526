"""llama-server's metric families."""

from __future__ import annotations

import msgspec

from dragoman.backend.base import BackendStats
from dragoman.telemetry.metrics import Metrics
from dragoman.telemetry.receipt import Receipt


def values(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.render().decode().splitlines() if line.startswith("llamacpp:")]
    return {line.split()[0].removeprefix("llamacpp:"): float(line.split()[1]) for line in lines}


def test_counters_add_up_and_averages_begin_anew() -> None:
    stats = msgspec.structs.asdict(BackendStats(running=1, waiting=2))
    metrics = Metrics(lambda: {"m": stats})
    assert set(values(metrics).values()) == {0.0, 1.0, 2.0}
    metrics.record(
        Receipt(
            request_id="r",
            dialect="d",
            path="/p",
            reason="eos",
            choices=1,
            prompt_tokens=30,
            cached_tokens=10,
            completion_tokens=11,
            prompt_ms=2000.0,
            predicted_ms=500.0,
            drafted=6,
            accepted=4,
        )
    )
    metrics.record(Receipt(request_id="r", dialect="d", path="/p", prompt_tokens=99))
    shown = values(metrics)
    assert (shown["prompt_tokens_total"], shown["prompt_tokens_cached_total"]) == (20, 10)
    assert (shown["prompt_seconds_total"], shown["tokens_predicted_total"]) == (2.0, 11)
    assert (shown["n_tokens_max"], shown["requests_deferred"]) == (41, 2)
    assert (shown["prompt_tokens_seconds"], shown["predicted_tokens_seconds"]) == (10.0, 20.0)
    assert (shown["spec_decode_num_draft_tokens_total"], shown["spec_decode_num_accepted_tokens_total"]) == (6, 4)
    again = values(metrics)
    assert (again["prompt_tokens_seconds"], again["prompt_tokens_total"]) == (0.0, 20)
