"""Log probabilities of the tokens of a prompt, from raw logits. Knows no row and no sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx

from dragoman.core.logprobs import TokenLogprob, TokenLogprobs
from dragoman.engines.mlx.arrays import to_list

SLICE = 64
"""Positions whose logits are held at once: 64 of them over 150,000 tokens take 38 MB."""
_IMPOSSIBLE = -9999.0


def prompt_logprobs(logits: mx.array, following: Sequence[int], count: int) -> list[TokenLogprobs]:
    """For logits (positions, vocabulary) and the token that follows each position: its log probability and the `count`
    likeliest ones, natural logarithm in float32, best first, ties by id. Waits."""
    values = logits.astype(mx.float32)
    values = values - mx.logsumexp(values, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(values, mx.array(list(following))[:, None], axis=-1)[:, 0]
    width = min(count, logits.shape[-1])
    if width == 0:
        own: list[float] = to_list(chosen)
        return [TokenLogprobs(_entry(*pair), ()) for pair in zip(following, own, strict=True)]
    ids = mx.argpartition(-values, kth=width - 1, axis=-1)[:, :width]
    best = mx.take_along_axis(values, ids, axis=-1)
    lines = zip(following, to_list(chosen), to_list(ids), to_list(best), strict=True)
    return [TokenLogprobs(_entry(token, value), _ranked(rivals, theirs)) for token, value, rivals, theirs in lines]


def _ranked(ids: list[int], values: list[float]) -> tuple[TokenLogprob, ...]:
    pairs = sorted(zip(ids, values, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(_entry(*pair) for pair in pairs)


def _entry(token: int, value: float) -> TokenLogprob:
    return TokenLogprob(token, value if math.isfinite(value) else _IMPOSSIBLE)
