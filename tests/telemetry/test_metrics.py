"""Metrics in Prometheus text, counted once."""

from __future__ import annotations

import msgspec

from dragoman.backend.base import BackendStats
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
