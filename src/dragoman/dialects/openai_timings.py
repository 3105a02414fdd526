"""The `timings` object of the OpenAI generation wires: llama-server's names, with our own `queued_ms` and `lane`.

Measures nothing.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.usage import Timings, Usage


class TimingsObject(Struct, frozen=True, kw_only=True):
    """Tokens, milliseconds and rates. `prompt_n` prompt tokens were computed, `cache_n` did not have to be; rates count
    one token less than were predicted, since the first comes with the prompt. `lane` is null where nobody says.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    queued_ms: float
    lane: str | None


def timings_object(usage: Usage, timings: Timings) -> TimingsObject:
    """The times of one choice. A rate is 0 where nothing was to be divided."""
    prompt_n, steps = usage.prompt_tokens - usage.cached_tokens, max(0, usage.completion_tokens - 1)
    return TimingsObject(
        cache_n=usage.cached_tokens,
        prompt_n=prompt_n,
        prompt_ms=timings.prompt_ms,
        prompt_per_token_ms=_ratio(timings.prompt_ms, prompt_n),
        prompt_per_second=_ratio(1e3 * prompt_n, timings.prompt_ms),
        predicted_n=usage.completion_tokens,
        predicted_ms=timings.predicted_ms,
        predicted_per_token_ms=_ratio(timings.predicted_ms, steps),
        predicted_per_second=_ratio(1e3 * steps, timings.predicted_ms),
        queued_ms=timings.queued_ms,
        lane=timings.lane or None,
    )


def _ratio(amount: float, divisor: float) -> float:
    return amount / divisor if divisor else 0.0
