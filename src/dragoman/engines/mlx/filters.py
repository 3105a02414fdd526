"""Filters of candidates over a whole batch: `sampling.filters` with one entry per row. Draws nothing.

Every stage takes logits of shape (rows, candidates) in any order, minus infinity where a candidate is gone, and gives
them back with more gone. A stage that no row needs is not computed; for the rows that do not need it, its parameters
are neutral.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import column
from dragoman.sampling.vectors import SamplingVectors


class Filters:
    """The filters of `rows` of the vectors, in the default order."""

    def __init__(self, vectors: SamplingVectors, rows: NDArray[np.int64], vocab_size: int) -> None:
        top_k, top_p, min_p = vectors.top_k[rows], vectors.top_p[rows], vectors.min_p[rows]
        typical_p, sigma = vectors.typical_p[rows], vectors.top_n_sigma[rows]
        min_keep = vectors.min_keep[rows]
        self._spare = column(min_keep - 1)
        self._several = bool((min_keep > 1).any())
        self._sigma = column(sigma) if (sigma > 0.0).any() else None
        limit = np.where(top_k > 0, np.maximum(top_k, min_keep), vocab_size)
        self._top_k = limit if (top_k > 0).any() else None
        self._typical_p = column(np.where(typical_p < 1.0, typical_p, np.inf)) if (typical_p < 1.0).any() else None
        self._top_p = column(np.where(top_p < 1.0, top_p, np.inf)) if (top_p < 1.0).any() else None
        with np.errstate(divide="ignore"):
            self._log_min_p = column(np.log(min_p)) if (min_p > 0.0).any() else None
        self._xtc_probability: NDArray[np.float32] = vectors.xtc_probability[rows]
        self._xtc_threshold = column(vectors.xtc_threshold[rows])
        self._min_keep = column(min_keep)

    @property
    def chancy(self) -> bool:
        """Whether `apply` needs a random number per row."""
        return bool((self._xtc_probability > 0.0).any())

    def apply(self, values: mx.array, logits: mx.array, chances: NDArray[np.float32] | None) -> mx.array:
        """Cut `values`, the most likely of `logits` or all of them. `chances` are in [0, 1), one per row."""
        if self._sigma is not None:
            floor = _peak(values) - self._sigma * _deviation(logits)
            values = _above(values, mx.where(self._sigma > 0.0, floor, -mx.inf))
        if self._top_k is not None:
            last = column(np.minimum(self._top_k, values.shape[-1]).astype(np.int32) - 1)
            values = _above(values, mx.take_along_axis(_ranked(values), last, axis=-1))
        if self._typical_p is not None:
            values = self._typical(values, self._typical_p)
        if self._top_p is not None:
            values = self._nucleus(values, self._top_p)
        if self._log_min_p is not None:
            floor = _peak(values) + self._log_min_p
            if self._several:
                floor = mx.minimum(floor, self._last_spared(_ranked(values)))
            values = _above(values, floor)
        return values if chances is None else self._exclude_top(values, chances < self._xtc_probability)

    def _nucleus(self, values: mx.array, mass: mx.array) -> mx.array:
        ranked = _ranked(values)
        last = self._last(probabilities(ranked), mass)
        return _above(values, mx.take_along_axis(ranked, last, axis=-1))

    def _typical(self, values: mx.array, mass: mx.array) -> mx.array:
        weights = probabilities(values)
        gap = mx.abs(surprise(values) - entropy(values))
        gap = mx.where(values > -mx.inf, gap, mx.inf)
        order = mx.argsort(gap, axis=-1)
        last = self._last(mx.take_along_axis(weights, order, axis=-1), mass)
        furthest = mx.take_along_axis(mx.take_along_axis(gap, order, axis=-1), last, axis=-1)
        return mx.where(gap <= furthest, values, -mx.inf)

    def _last(self, weights: mx.array, mass: mx.array) -> mx.array:
        """Index of the candidate whose weight brings the running sum to `mass`; the last with any for infinity."""
        before = mx.cumsum(weights, axis=-1, inclusive=False)
        inside = mx.sum(before < mass, axis=-1, keepdims=True).astype(mx.int32)
        return mx.minimum(mx.maximum(inside - 1, self._spare), weights.shape[-1] - 1)

    def _last_spared(self, ranked: mx.array) -> mx.array:
        return mx.take_along_axis(ranked, mx.minimum(self._spare, ranked.shape[-1] - 1), axis=-1)

    def _exclude_top(self, values: mx.array, happens: NDArray[np.bool_]) -> mx.array:
        above = (probabilities(values) >= self._xtc_threshold) & (values > -mx.inf)
        least = mx.min(mx.where(above, values, mx.inf), axis=-1, keepdims=True)
        left = mx.sum((values <= least) & (values > -mx.inf), axis=-1, keepdims=True)
        spared = (values <= least) | (left < self._min_keep) | ~column(happens)
        return mx.where(spared, values, -mx.inf)


def probabilities(values: mx.array) -> mx.array:
    """Of the candidates, same shape."""
    weights = mx.exp(values - _peak(values))
    return weights / mx.sum(weights, axis=-1, keepdims=True)


def surprise(values: mx.array) -> mx.array:
    """Minus the natural logarithm of the probabilities, same shape."""
    below = values - _peak(values)
    return mx.log(mx.sum(mx.exp(below), axis=-1, keepdims=True)) - below


def entropy(values: mx.array) -> mx.array:
    """In nats, shape (rows, 1)."""
    terms = mx.where(values > -mx.inf, probabilities(values) * surprise(values), 0.0)
    return mx.sum(terms, axis=-1, keepdims=True)


def _above(values: mx.array, floor: mx.array) -> mx.array:
    return mx.where(values >= floor, values, -mx.inf)


def _peak(values: mx.array) -> mx.array:
    return mx.max(values, axis=-1, keepdims=True)


def _ranked(values: mx.array) -> mx.array:
    return -mx.sort(-values, axis=-1)


def _deviation(logits: mx.array) -> mx.array:
    """Standard deviation of the logits that are not minus infinity, shape (rows, 1)."""
    able = logits > -mx.inf
    count = mx.sum(able, axis=-1, keepdims=True)
    mean = mx.sum(mx.where(able, logits, 0.0), axis=-1, keepdims=True) / count
    squares = mx.where(able, mx.square(logits - mean), 0.0)
    return mx.sqrt(mx.sum(squares, axis=-1, keepdims=True) / count)
