"""Vectors of tokens to vectors of inputs. Knows no model."""

from __future__ import annotations

import mlx.core as mx

from dragoman.core.vectors import Pooling


def pool(hidden: mx.array, lengths: mx.array, pooling: Pooling) -> mx.array:
    """(inputs, width) of (inputs, tokens, width), padded at the right; `lengths` of the inputs without padding."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return mx.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    inside = (mx.arange(hidden.shape[1])[None, :] < lengths[:, None])[:, :, None]
    return mx.sum(mx.where(inside, hidden, 0), axis=1) / lengths[:, None]
