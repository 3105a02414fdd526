"""The `timings` object and the rates derived from it. Measures nothing."""

from __future__ import annotations

from dragoman.core.usage import Timings, Usage

_LEAST_PREDICTED_MS = 0.001


def timings_object(usage: Usage, timings: Timings) -> dict[str, int | float]:
    """Nine keys in order, and two more where drafts were made. The first token is free: rates of prediction count one
    token less; a rate is 0 when its divisor is."""
    prompt_n = usage.prompt_tokens - usage.cached_tokens
    predicted_n = usage.completion_tokens
    predicted_ms = max(_LEAST_PREDICTED_MS, timings.predicted_ms) if predicted_n else 0.0
    steps = max(0, predicted_n - 1)
    drafts = {"draft_n": timings.drafted, "draft_n_accepted": timings.accepted} if timings.drafted else {}
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": float(timings.prompt_ms),
        "prompt_per_token_ms": _ratio(timings.prompt_ms, prompt_n),
        "prompt_per_second": _ratio(1e3, timings.prompt_ms) * prompt_n,
        "predicted_n": predicted_n,
        "predicted_ms": float(predicted_ms),
        "predicted_per_token_ms": _ratio(predicted_ms, steps),
        "predicted_per_second": _ratio(1e3, predicted_ms) * steps,
        **drafts,
    }


def _ratio(amount: float, divisor: float) -> float:
    return float(amount / divisor) if divisor else 0.0
