"""Prometheus metrics in a registry of our own. Fed with receipts and backend counters; knows no request's text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dragoman.telemetry.receipt import Receipt

_FIRST_TOKEN_BUCKETS = (0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

_GAUGES = {
    "running": "Requests in the engine now.",
    "waiting": "Requests waiting for the engine now.",
    "lanes": "Requests the engine can decode together.",
    "cache_bytes": "Bytes of cached prefixes.",
    "cache_entries": "Cached prefixes.",
}
_COUNTERS = {
    "finished": "Requests the engine finished.",
    "cancelled": "Requests dropped before they finished, at whatever stage.",
    "failed": "Requests the engine failed on.",
    "prompt_tokens": "Prompt tokens processed, cached ones not included.",
    "cached_tokens": "Prompt tokens taken from the prefix cache.",
    "completion_tokens": "Tokens sampled.",
    "restarts": "Engine restarts.",
    "cache_hits": "Requests that began with cached tokens.",
    "cache_misses": "Requests that might have, and did not.",
    "cache_evicted": "Cached prefixes that made room for others.",
}

Stats = Callable[[], Mapping[str, Mapping[str, float]]]


class Metrics:
    """All metrics of one server. `stats` gives, per model id, the fields of its backend's counters."""

    def __init__(self, stats: Stats) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._registry.register(_EngineCollector(stats))
        self._requests = Counter(
            "dragoman_requests",
            "Requests by dialect, path and outcome.",
            ("dialect", "path", "outcome"),
            registry=self._registry,
        )
        self._first_token = Histogram(
            "dragoman_first_token_seconds",
            "Time from the request to its first token.",
            buckets=_FIRST_TOKEN_BUCKETS,
            registry=self._registry,
        )
        self._ignored = Counter(
            "dragoman_ignored_fields",
            "Unknown request fields that were accepted and ignored.",
            ("dialect",),
            registry=self._registry,
        )

    def record(self, receipt: Receipt) -> None:
        """Count one request."""
        self._requests.labels(receipt.dialect, receipt.path, receipt.outcome).inc()
        if receipt.first_token_ms is not None:
            self._first_token.observe(receipt.first_token_ms / 1000)
        if receipt.ignored:
            self._ignored.labels(receipt.dialect).inc(len(receipt.ignored))

    def render(self) -> bytes:
        """Prometheus text exposition, format 0.0.4."""
        return generate_latest(self._registry)


class _EngineCollector:
    """Reads the engines' own counters at scrape time, so that nothing is counted twice."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        models = self._stats()
        for name, text in _GAUGES.items():
            yield self._filled(GaugeMetricFamily(f"dragoman_engine_{name}", text, labels=("model",)), models, name)
        for name, text in _COUNTERS.items():
            yield self._filled(CounterMetricFamily(f"dragoman_engine_{name}", text, labels=("model",)), models, name)

    @staticmethod
    def _filled(
        family: GaugeMetricFamily | CounterMetricFamily, models: Mapping[str, Mapping[str, float]], name: str
    ) -> Metric:
        for model, values in models.items():
            family.add_metric((model,), values[name])
        return family

    def describe(self) -> Iterable[Metric]:
        return ()
