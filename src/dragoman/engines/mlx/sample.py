"""Draws the next token of every row of a batch in one vectorised pass. Knows logits and specs, no model and no cache.

Stages and their order are those of `sampling.reference`; stages no row needs are not computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import column, to_mlx
from dragoman.engines.mlx.draw import Draw, Logprobs
from dragoman.engines.mlx.row import Row
from dragoman.engines.mlx.stages import Chance, Penalties
from dragoman.sampling.bias import ban_row, bias_row
from dragoman.sampling.vectors import vectors_of


class Sampler:
    """Samples for one fixed set of rows, step after step, without reading tokens back.

    Made when the set of rows changes, at a moment when all their tokens are known; from then on it follows the
    penalty windows with arrays. Each `draw` counts as one more token of every row.
    """

    def __init__(self, rows: Sequence[Row], vocab_size: int) -> None:
        specs = [row.spec.sampling for row in rows]
        stops = [row.spec.stop_tokens for row in rows]
        self._vocab_size = vocab_size
        self._vectors = vectors = vectors_of(specs, vocab_size)
        self._steps = np.array([row.drawn for row in rows])
        self._wanted = {i: row.spec.logprobs for i, row in enumerate(rows) if row.spec.logprobs is not None}
        self._bias = _stacked([bias_row(spec, stop, vocab_size) for spec, stop in zip(specs, stops, strict=True)])
        early = self._steps < vectors.min_tokens
        self._ban = _stacked([ban_row(stop, vocab_size) if on else None for stop, on in zip(stops, early, strict=True)])
        self._penalties = Penalties(rows, vectors, vocab_size) if vectors.penalised.any() else None
        self._chance = Chance(vectors, self._steps, vocab_size) if not vectors.greedy.all() else None
        self._last: mx.array | None = None

    def draw(self, logits: mx.array) -> Draw:
        """Sample from logits of shape (rows, vocabulary), in any float type."""
        if self._penalties and self._last is not None:
            self._penalties.follow(self._last)
        logits = self._processed(logits)
        scores = self._chance.scores(logits) if self._chance else logits
        tokens = mx.argmax(scores, axis=-1)
        self._last = tokens
        self._steps = self._steps + 1
        return Draw(tokens, mx.max(logits, axis=-1).astype(mx.float32), self._logprobs(logits, tokens))

    def _processed(self, logits: mx.array) -> mx.array:
        if self._bias is not None:
            logits = logits.astype(mx.float32) + self._bias
        early = self._steps < self._vectors.min_tokens
        if self._ban is not None and early.any():
            logits = mx.where(column(early), logits.astype(mx.float32) + self._ban, logits)
        return self._penalties.apply(logits) if self._penalties else logits

    def _logprobs(self, logits: mx.array, tokens: mx.array) -> Logprobs | None:
        return Logprobs(logits, tokens, self._wanted) if self._wanted else None


def _stacked(rows: Sequence[NDArray[np.float32] | None]) -> mx.array | None:
    """One array of all rows, zeros for None; None when all are."""
    shape = next((row.shape for row in rows if row is not None), None)
    if shape is None:
        return None
    return to_mlx(np.stack([np.zeros(shape, np.float32) if row is None else row for row in rows]))
