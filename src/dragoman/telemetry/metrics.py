"""Prometheus metrics in a registry of our own. Fed with receipts and backend counters; knows no request's text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dragoman.telemetry.llamacpp import LlamaServerMetrics
from dragoman.telemetry.receipt import Receipt

_FIRST_TOKEN_BUCKETS = (0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

_SPANS = {
    "queued": "Time requests waited for the engine.",
    "prompt": "Time the engine read prompts.",
    "decode": "Time from the first token of an answer to its last.",
}
_SPAN_BUCKETS = (0.001, 0.005, *_FIRST_TOKEN_BUCKETS, 300, 600)

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
        self._llama_server = LlamaServerMetrics(stats)
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
        self._spans = {
            name: Histogram(f"dragoman_{name}_seconds", text, buckets=_SPAN_BUCKETS, registry=self._registry)
            for name, text in _SPANS.items()
        }
        self._lanes = Counter(
            "dragoman_lane_requests",
            "Answered requests by how the engine ran them.",
            ("lane",),
            registry=self._registry,
        )
        self._misses = Counter(
            "dragoman_prefix_misses",
            "Requests whose prompt missed a kept prefix, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self._ignored = Counter(
            "dragoman_ignored_fields",
            "Unknown request fields that were accepted and ignored.",
            ("dialect",),
            registry=self._registry,
        )
        self._thoughts = Counter(
            "dragoman_dropped_thoughts",
            "Replayed thoughts left out because this server did not sign them for this model.",
            ("dialect",),
            registry=self._registry,
        )
        self._repairs = Counter(
            "dragoman_repairs",
            "What had to be mended in tool calls, by rung; raw: could not be read and was given out as text.",
            ("rung",),
            registry=self._registry,
        )

    def record(self, receipt: Receipt) -> None:
        """Count one request."""
        self._llama_server.record(receipt)
        self._requests.labels(receipt.dialect, receipt.path, receipt.outcome).inc()
        if receipt.first_token_ms is not None:
            self._first_token.observe(receipt.first_token_ms / 1000)
        if receipt.reason:
            self._answered(receipt)
        if receipt.miss is not None:
            self._misses.labels(receipt.miss.reason).inc()
        if receipt.dropped_thoughts:
            self._thoughts.labels(receipt.dialect).inc(receipt.dropped_thoughts)
        if receipt.ignored:
            self._ignored.labels(receipt.dialect).inc(len(receipt.ignored))
        for rung in receipt.repairs:
            self._repairs.labels(rung).inc()

    def _answered(self, receipt: Receipt) -> None:
        spans = {"queued": receipt.queued_ms, "prompt": receipt.prompt_ms, "decode": receipt.predicted_ms}
        for name, ms in spans.items():
            self._spans[name].observe(ms / 1000)
        if receipt.lane:
            self._lanes.labels(receipt.lane).inc()

    def render(self) -> bytes:
        """Prometheus text exposition, format 0.0.4; llama-server's families first."""
        return self._llama_server.render() + generate_latest(self._registry)


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
