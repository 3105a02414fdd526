"""The stages of vectorised sampling that look at more than one number per row. Each sees only the rows that need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import add_at, column, put_rows, to_mlx
from dragoman.engines.mlx.row import Row
from dragoman.sampling.penalties import leaving_index, window_counts
from dragoman.sampling.vectors import SamplingVectors

_SHORT = 256
"""Windows up to this many tokens are compared token by token."""


class Some:
    """Some rows of a batch: picks them and puts them back, at no cost when they are all of it."""

    def __init__(self, chosen: NDArray[np.int64], total: int) -> None:
        self._at = None if len(chosen) == total else to_mlx(chosen)

    def put(self, target: mx.array, values: mx.array) -> mx.array:
        """`target` with the chosen rows replaced."""
        return values if self._at is None else put_rows(target, self._at, values)

    def pick(self, values: mx.array) -> mx.array:
        """The chosen rows."""
        return values if self._at is None else values[self._at]

    def change(self, values: mx.array, function: Callable[[mx.array], mx.array]) -> mx.array:
        """`values` in float32 with the chosen rows replaced by `function` of them."""
        values = values.astype(mx.float32)
        return self.put(values, function(self.pick(values)))


class Penalties(Protocol):
    """Repetition, presence and frequency penalties of some rows."""

    def follow(self, tokens: mx.array) -> None:
        """All rows grew by `tokens`, which may not be known yet."""
        ...

    def apply(self, logits: mx.array) -> mx.array:
        """Logits of all rows, penalised where a row asks for it."""
        ...


def penalties_of(
    rows: Sequence[Row], vectors: SamplingVectors, here: NDArray[np.bool_], vocab_size: int
) -> list[Penalties]:
    """Those of the rows that are `here` and penalised, by the length of their windows."""
    short = (vectors.window >= 0) & (vectors.window <= _SHORT)
    found: list[Penalties] = []
    for kind, which in ((Recent, short), (Counted, ~short)):
        chosen = np.flatnonzero(vectors.penalised & here & which)
        if len(chosen):
            found.append(kind(rows, vectors, chosen, vocab_size))
    return found


class Recent:
    """Penalties of rows with short windows: their last tokens, kept on the device. Only the logits of these change, so
    the cost hardly depends on the vocabulary."""

    def __init__(
        self, rows: Sequence[Row], vectors: SamplingVectors, chosen: NDArray[np.int64], vocab_size: int
    ) -> None:
        self._some = Some(chosen, len(rows))
        self._windows = vectors.window[chosen]
        self._lengths = np.array([len(rows[int(i)].tokens) for i in chosen])
        width = int(self._windows.max())
        said = [rows[int(i)].tokens[-width:] for i in chosen]
        self._tokens = to_mlx(np.array([[0] * (width - len(ids)) + ids for ids in said], dtype=np.int32))
        self._ages = np.arange(width - 1, -1, -1)
        self._repetition = column(vectors.repetition[chosen])
        self._presence = column(vectors.presence[chosen])
        self._frequency = column(vectors.frequency[chosen])

    def follow(self, tokens: mx.array) -> None:
        """The oldest token makes room for the newest."""
        newest = self._some.pick(tokens)[:, None].astype(mx.int32)
        self._tokens = mx.concatenate([self._tokens[:, 1:], newest], axis=-1)
        self._lengths = self._lengths + 1

    def apply(self, logits: mx.array) -> mx.array:
        """Logits of all rows, penalised where a row asks for it."""
        return self._some.change(logits, self._penalised)

    def _penalised(self, logits: mx.array) -> mx.array:
        within = to_mlx(self._ages < np.minimum(self._windows, self._lengths)[:, None])
        # What is outside the window becomes one more mention, not counted, of the newest token, which is never outside.
        ids = mx.where(within, self._tokens, self._tokens[:, -1:])
        same = (ids[:, :, None] == ids[:, None, :]) & within[:, None, :]
        counts = mx.sum(same, axis=-1).astype(mx.float32)
        values = mx.take_along_axis(logits, ids, axis=-1)
        damped = mx.where(values > 0, values / self._repetition, values * self._repetition)
        return mx.put_along_axis(logits, ids, damped - (counts * self._frequency + self._presence), axis=-1)


class Counted:
    """Penalties of rows with long windows: the count of every token of the vocabulary, kept on the device."""

    def __init__(
        self, rows: Sequence[Row], vectors: SamplingVectors, chosen: NDArray[np.int64], vocab_size: int
    ) -> None:
        self._some = Some(chosen, len(rows))
        self._rows = [rows[int(i)] for i in chosen]
        self._windows: list[int] = vectors.window[chosen].tolist()
        self._length = [len(row.tokens) for row in self._rows]
        counted = [window_counts(r.tokens, w, vocab_size) for r, w in zip(self._rows, self._windows, strict=True)]
        self._counts = to_mlx(np.stack(counted))
        self._lines = mx.arange(len(chosen))
        self._repetition = column(vectors.repetition[chosen])
        self._presence = column(vectors.presence[chosen])
        self._frequency = column(vectors.frequency[chosen])

    def follow(self, tokens: mx.array) -> None:
        """The rows grew by `tokens`: count them, and forget what fell out of the windows.

        What falls out was delivered at least one step ago, so it is known here although `tokens` may not be.
        """
        self._counts = add_at(self._counts, self._lines, self._some.pick(tokens), 1)
        self._length = [length + 1 for length in self._length]
        gone = [leaving_index(n, window) for n, window in zip(self._length, self._windows, strict=True)]
        lines = [i for i, index in enumerate(gone) if index is not None]
        if lines:
            ids = [row.tokens[index] for row, index in zip(self._rows, gone, strict=True) if index is not None]
            self._counts = add_at(self._counts, mx.array(lines), mx.array(ids), -1)

    def apply(self, logits: mx.array) -> mx.array:
        """Logits of all rows, penalised where a row asks for it."""
        return self._some.change(logits, self._penalised)

    def _penalised(self, logits: mx.array) -> mx.array:
        seen = self._counts > 0
        damped = mx.where(logits > 0, logits / self._repetition, logits * self._repetition)
        addend = self._counts.astype(mx.float32) * self._frequency + seen.astype(mx.float32) * self._presence
        return mx.where(seen, damped - addend, logits)
