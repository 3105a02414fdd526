"""Counts and times of one answer. Plain numbers; who adds them up is not known here."""

from __future__ import annotations

from msgspec import Struct


class Timings(Struct, frozen=True):
    """Milliseconds: `prompt_ms` from slot start to the first sampled token, `predicted_ms` from there to the last.
    `lane` tells how the engine ran the request, as it calls that (`batched`, `serial`); '' where it does not say. Of
    `drafted` tokens that speculation proposed, `accepted` became part of the answer."""

    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    queued_ms: float = 0.0
    lane: str = ""
    drafted: int = 0
    accepted: int = 0


class Usage(Struct, frozen=True):
    """Tokens. `prompt_tokens` includes `cached_tokens`; `completion_tokens` counts every sampled token, the end
    token and cut stop text included, and `reasoning_tokens` are part of it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )
