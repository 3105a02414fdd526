"""Tokens an answered row reports, whichever wire wrote the answer. Knows no wire but the names they use."""

from __future__ import annotations

import msgspec

from dragoman.core.batches import RowUsage


class _Details(msgspec.Struct):
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


def usage_of(body: bytes) -> RowUsage:
    """What the `usage` of a JSON answer says; nothing when it has none that can be read."""
    try:
        usage = msgspec.json.decode(body, type=_Answer).usage
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return RowUsage()
    if usage is None:
        return RowUsage()
    into = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
    out = usage.completion_tokens_details or usage.output_tokens_details or _Details()
    return RowUsage(
        input_tokens=usage.prompt_tokens or usage.input_tokens + usage.cache_read_input_tokens,
        cached_tokens=into.cached_tokens or usage.cache_read_input_tokens,
        output_tokens=usage.completion_tokens or usage.output_tokens,
        reasoning_tokens=out.reasoning_tokens,
    )
