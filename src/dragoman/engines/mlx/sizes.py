"""How many bytes a row's caches take, measured on caches that were fed a few tokens. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.engines.mlx.caches import arrays_of, parts_of, window_of
from dragoman.engines.mlx.row import LayerCaches

_STEP = 256
"""Tokens by which mlx-lm's caches, and ours, grow."""


class Layer(Struct, frozen=True):
    """`per_token` bytes for each token held, at most `window` of them; `fixed` bytes however long the row is."""

    per_token: int
    fixed: int
    window: int | None


def measured(caches: LayerCaches) -> list[Layer]:
    """The layers of a row that was fed at least one token."""
    return [_layer(part) for cache in caches for part in parts_of(cache)]


def bytes_of(layers: Sequence[Layer], length: int) -> int:
    """Storage of a row of `length` tokens."""
    tokens = -(-length // _STEP) * _STEP
    return sum(layer.fixed + layer.per_token * _held(layer, tokens) for layer in layers)


def _held(layer: Layer, tokens: int) -> int:
    return tokens if layer.window is None else min(tokens, layer.window)


def _layer(cache: object) -> Layer:
    window = window_of(cache)
    arrays = arrays_of([cache])
    if window == 0:
        return Layer(0, sum(array.nbytes for array in arrays), None)
    return Layer(sum(array.nbytes // max(array.shape[2], 1) for array in arrays), 0, window)
