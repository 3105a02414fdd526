"""Draws for the rows of a batch that leave something to chance and go through the stages in the default order."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import column
from dragoman.engines.mlx.filters import Filters, entropy
from dragoman.engines.mlx.noise import StepKeys, noise_of, noise_of_all
from dragoman.engines.mlx.stages import Some
from dragoman.sampling.vectors import SamplingVectors

_HEADS = ((96, 256), (1920, 4096))
"""Up to how large a top_k how many of the most likely tokens are looked at. What is over catches ties with the last
one kept; few sizes, so that what a row looks at does not depend on its company."""


def head_sizes(vectors: SamplingVectors, vocab_size: int) -> NDArray[np.int64]:
    """How many of the most likely tokens each row has to look at: all of them unless top_k is small."""
    reach = np.where(vectors.top_k > 0, np.maximum(vectors.top_k, vectors.min_keep), vocab_size)
    sizes = np.full(len(reach), vocab_size, dtype=np.int64)
    for limit, size in reversed(_HEADS):
        sizes[reach <= limit] = min(size, vocab_size)
    return sizes


class Chance:
    """Filters, temperature and Gumbel noise of the rows at positions `chosen`, which all look at `head` tokens."""

    def __init__(
        self, vectors: SamplingVectors, chosen: NDArray[np.int64], steps: NDArray[np.int64], head: int, vocab_size: int
    ) -> None:
        self.some = Some(chosen, len(steps))
        self.size = len(chosen)
        self._head = head
        self._vocab_size = vocab_size
        self._filters = Filters(vectors, chosen, vocab_size) if vectors.filtered[chosen].any() else None
        chancy = self._filters is not None and self._filters.chancy
        self._keys = StepKeys(vectors.seed[chosen].tolist(), steps[chosen].tolist(), chancy)
        self._heat = Heat(vectors, chosen)

    def draw(self, logits: mx.array) -> mx.array:
        """Tokens of the chosen rows, from the logits of all rows."""
        own = self.some.pick(logits).astype(mx.float32)
        keys, chances = self._keys.next()
        if self._head == self._vocab_size:
            return mx.argmax(self._tempered(own, own, chances) + noise_of_all(keys, self._vocab_size), axis=-1)
        ids = mx.argpartition(own, kth=self._vocab_size - self._head, axis=-1)[:, self._vocab_size - self._head :]
        values = self._tempered(mx.take_along_axis(own, ids, axis=-1), own, chances)
        best = mx.argmax(values + noise_of(keys, ids), axis=-1, keepdims=True)
        return mx.take_along_axis(ids, best, axis=-1)[:, 0]

    def _tempered(self, values: mx.array, logits: mx.array, chances: NDArray[np.float32] | None) -> mx.array:
        return self._heat.apply(self._filters.apply(values, logits, chances) if self._filters else values)


class Heat:
    """Temperature, dynamic temperature and HLG curve: `sampling.temper` with one entry per row."""

    def __init__(self, vectors: SamplingVectors, chosen: NDArray[np.int64]) -> None:
        temperature, spread = vectors.temperature[chosen], vectors.dynatemp_range[chosen]
        self._temperature = column(temperature)
        self._dynamic = column(spread > 0.0) if (spread > 0.0).any() else None
        self._low = column(np.maximum(temperature - spread, np.float32(0.0)))
        self._high = column(temperature + spread)
        self._exponent = column(vectors.dynatemp_exponent[chosen])
        width = vectors.hlg_width[chosen]
        self._curved = column(width < np.inf) if (width < np.inf).any() else None
        self._width = column(width)
        self._shoulder, self._toe = column(vectors.hlg_shoulder[chosen]), column(vectors.hlg_toe[chosen])
        self._offset = column(vectors.hlg_offset[chosen])

    def apply(self, values: mx.array) -> mx.array:
        """Logits of the draw. The peak is taken off first: a tiny temperature then drives the others to minus
        infinity, never two of them to plus infinity."""
        below = values - mx.max(values, axis=-1, keepdims=True)
        if self._dynamic is None:
            scaled = below / self._temperature
        else:
            # A dynamic temperature may be 0, and 0 / 0 would lose the best.
            scaled = mx.where(below < 0.0, below / self._warmth(values, self._dynamic), 0.0)
        return scaled if self._curved is None else mx.where(self._curved, self._curve(below), scaled)

    def _warmth(self, values: mx.array, dynamic: mx.array) -> mx.array:
        count = mx.sum(values > -mx.inf, axis=-1, keepdims=True)
        most = mx.log(mx.maximum(count, 2).astype(mx.float32))
        normalised = mx.clip(entropy(values) / most, 0.0, 1.0)
        warm = self._low + (self._high - self._low) * mx.power(normalised, self._exponent)
        return mx.where(dynamic & (count > 1), warm, self._temperature)

    def _curve(self, below: mx.array) -> mx.array:
        z = below + self._offset
        above, under = mx.maximum(z - self._width, 0.0), mx.maximum(-z - self._width, 0.0)
        bent = mx.clip(z, -self._width, self._width) + _bent(above, self._shoulder) - _bent(under, self._toe)
        return bent / self._temperature


def _bent(excess: mx.array, softness: mx.array) -> mx.array:
    safe = mx.where(softness > 0.0, softness, 1.0)
    return mx.where(softness > 0.0, safe * mx.log1p(excess / safe), excess)
