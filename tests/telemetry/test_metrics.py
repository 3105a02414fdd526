"""Metrics in Prometheus text, counted once."""

from __future__ import annotations

import msgspec

from dragoman.backend.base import BackendStats
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.telemetry.metrics import Metrics
from dragoman.telemetry.receipt import Receipt


def test_text() -> None:
    stats = BackendStats(running=2, lanes=4, cancelled=3, completion_tokens=40)
    metrics = Metrics(lambda: {"m": msgspec.structs.asdict(stats)})
    receipt = Receipt(request_id="r", dialect="ollama", path="/api/chat", outcome="finished", first_token_ms=120.0)
    metrics.record(receipt)
    metrics.record(receipt)
    text = metrics.render().decode()
    assert 'dragoman_requests_total{dialect="ollama",outcome="finished",path="/api/chat"} 2.0' in text
    assert 'dragoman_engine_running{model="m"} 2.0' in text
    assert 'dragoman_engine_cancelled_total{model="m"} 3.0' in text
    assert 'dragoman_first_token_seconds_bucket{le="0.25"} 2.0' in text


def test_two_servers_do_not_share() -> None:
    one, other = Metrics(dict), Metrics(dict)
    one.record(Receipt(request_id="r", dialect="d", path="/p"))
    assert "dragoman_requests_total{" in one.render().decode()
    assert "dragoman_requests_total{" not in other.render().decode()


def test_times_lanes_and_misses_of_answers() -> None:
    metrics = Metrics(dict)
    spans = {"queued_ms": 4.0, "prompt_ms": 200.0, "predicted_ms": 2000.0}
    metrics.record(Receipt(request_id="r", dialect="d", path="/p", reason="eos", lane="batched", **spans))
    metrics.record(Receipt(request_id="r", dialect="d", path="/p", miss=PrefixMiss(reason="diverged")))
    text = metrics.render().decode()
    assert 'dragoman_queued_seconds_bucket{le="0.005"} 1.0' in text
    assert "dragoman_prompt_seconds_sum 0.2" in text
    assert "dragoman_decode_seconds_count 1.0" in text
    assert 'dragoman_lane_requests_total{lane="batched"} 1.0' in text
    assert 'dragoman_prefix_misses_total{reason="diverged"} 1.0' in text


def test_repairs_by_rung() -> None:
    metrics = Metrics(dict)
    metrics.record(Receipt(request_id="r", dialect="d", path="/p", repairs=("commas", "raw", "commas")))
    metrics.record(Receipt(request_id="r", dialect="d", path="/p"))
    text = metrics.render().decode()
    assert 'dragoman_repairs_total{rung="commas"} 2.0' in text
    assert 'dragoman_repairs_total{rung="raw"} 1.0' in text
