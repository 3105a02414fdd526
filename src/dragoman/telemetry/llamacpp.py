"""The metric families of llama-server, for dashboards made for it. Fed with receipts; reads the engines' gauges.

Names and words of HELP are llama-server's. What only its own loop can count (`n_decode_total`, busy slots of a step,
draft steps) stays 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.telemetry.receipt import Receipt

_COUNTERS = {
    "prompt_tokens_total": "Number of prompt tokens processed, excluding cached tokens",
    "prompt_tokens_cached_total": "Number of prompt tokens reused from the cache",
    "prompt_seconds_total": "Total time spent processing prompts",
    "tokens_predicted_total": "Number of generation tokens processed",
    "tokens_predicted_seconds_total": "Total time spent generating tokens",
    "n_decode_total": "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding",
    "n_tokens_max": "Largest observed sequence length (prompt + generation)",
    "spec_decode_num_draft_tokens_total": "Speculative: Total draft tokens generated",
    "spec_decode_num_accepted_tokens_total": "Speculative: Total draft tokens accepted by the target model",
    "spec_decode_num_drafts_total": "Speculative: Total speculative decoding verification steps",
}
_GAUGES = {
    "prompt_tokens_seconds": "Average prompt throughput in tokens/s",
    "predicted_tokens_seconds": "Average generation throughput in tokens/s",
    "requests_processing": "Number of requests processing",
    "requests_deferred": "Number of requests deferred",
    "n_busy_slots_per_decode": "Average number of busy slots per llama_decode() call",
}

Stats = Callable[[], Mapping[str, Mapping[str, float]]]


class _Span:
    """Tokens and seconds of one kind of work, in all and since the last look."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0
        self._steps = 0
        self._since = 0.0

    def add(self, tokens: int, steps: int, seconds: float) -> None:
        """`steps` are the tokens that took the time."""
        self.tokens += tokens
        self.seconds += seconds
        self._steps += steps
        self._since += seconds

    def rate(self) -> float:
        """Tokens a second since the last call."""
        rate = self._steps / self._since if self._since > 0 else 0.0
        self._steps, self._since = 0, 0.0
        return rate


class LlamaServerMetrics:
    """`stats` gives, per model id, the fields of its backend's counters."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._prompt = _Span()
        self._predicted = _Span()
        self._cached = 0
        self._longest = 0
        self._drafted = self._accepted = 0

    def record(self, receipt: Receipt) -> None:
        """Count one answered request."""
        if not receipt.reason:
            return
        computed = receipt.prompt_tokens - receipt.cached_tokens
        self._prompt.add(computed, computed, receipt.prompt_ms / 1000)
        steps = max(0, receipt.completion_tokens - receipt.choices)
        self._predicted.add(receipt.completion_tokens, steps, receipt.predicted_ms / 1000)
        self._cached += receipt.cached_tokens
        self._drafted += receipt.drafted
        self._accepted += receipt.accepted
        each = max(1, receipt.choices)
        self._longest = max(self._longest, (receipt.prompt_tokens + receipt.completion_tokens) // each)

    def render(self) -> bytes:
        """Prometheus text exposition, format 0.0.4. Averages begin anew with each call, as llama-server's do."""
        values = {**self._counters(), **self._gauges()}
        lines: list[str] = []
        for kind, families in (("counter", _COUNTERS), ("gauge", _GAUGES)):
            for name, words in families.items():
                lines += [
                    f"# HELP llamacpp:{name} {words}",
                    f"# TYPE llamacpp:{name} {kind}",
                    f"llamacpp:{name} {_number(values.get(name, 0))}",
                ]
        return ("\n".join(lines) + "\n").encode()

    def _counters(self) -> dict[str, float]:
        return {
            "prompt_tokens_total": self._prompt.tokens,
            "prompt_tokens_cached_total": self._cached,
            "prompt_seconds_total": round(self._prompt.seconds, 6),
            "tokens_predicted_total": self._predicted.tokens,
            "tokens_predicted_seconds_total": round(self._predicted.seconds, 6),
            "n_tokens_max": self._longest,
            "spec_decode_num_draft_tokens_total": self._drafted,
            "spec_decode_num_accepted_tokens_total": self._accepted,
        }

    def _gauges(self) -> dict[str, float]:
        models = tuple(self._stats().values())
        return {
            "prompt_tokens_seconds": self._prompt.rate(),
            "predicted_tokens_seconds": self._predicted.rate(),
            "requests_processing": sum(model["running"] for model in models),
            "requests_deferred": sum(model["waiting"] for model in models),
        }


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
