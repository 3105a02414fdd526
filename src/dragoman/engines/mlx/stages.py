"""The stages of vectorised sampling that look at more than one number per row. Each sees only the rows that need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import add_at, column, to_mlx
from dragoman.engines.mlx.row import Row
from dragoman.sampling.noise import SMALLEST, step_keys
from dragoman.sampling.penalties import leaving_index, window_counts
from dragoman.sampling.vectors import SamplingVectors

_KEY_BLOCK = 32


class Some:
    """Some rows of a batch: picks them and puts them back, at no cost when they are all of it."""

    def __init__(self, chosen: NDArray[np.int64], total: int) -> None:
        self._at = None if len(chosen) == total else to_mlx(chosen)

    def pick(self, values: mx.array) -> mx.array:
        """The chosen rows."""
        return values if self._at is None else values[self._at]

    def change(self, values: mx.array, function: Callable[[mx.array], mx.array]) -> mx.array:
        """`values` in float32 with the chosen rows replaced by `function` of them."""
        values = values.astype(mx.float32)
        if self._at is None:
            return function(values)
        changed = mx.array(values)
        changed[self._at] = function(values[self._at])
        return changed


class Penalties:
    """Token counts of the rows that are penalised, kept on the device."""

    def __init__(self, rows: Sequence[Row], vectors: SamplingVectors, vocab_size: int) -> None:
        chosen = np.flatnonzero(vectors.penalised)
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


class Chance:
    """Filters, temperature and Gumbel noise of the rows that are not greedy."""

    def __init__(self, vectors: SamplingVectors, steps: NDArray[np.int64], vocab_size: int) -> None:
        chosen = np.flatnonzero(~vectors.greedy)
        self._some = Some(chosen, len(steps))
        self._seeds: list[int] = vectors.seed[chosen].tolist()
        self._step: list[int] = steps[chosen].tolist()
        self._temperature = column(vectors.temperature[chosen])
        self._vocab_size = vocab_size
        inner = np.flatnonzero(vectors.filtered[chosen])
        self._filters = Filters(vectors, chosen, inner, vocab_size) if len(inner) else None
        self._block: NDArray[np.uint32] | None = None
        self._used = 0

    def scores(self, logits: mx.array) -> mx.array:
        """Logits of greedy rows; of the others what argmax turns into a draw."""
        return self._some.change(logits, self._noisy)

    def _noisy(self, logits: mx.array) -> mx.array:
        kept = self._filters.apply(logits) if self._filters else logits
        # The peak is taken off first: a tiny temperature then drives the others to -inf, never two of them to +inf.
        scaled = (kept - mx.max(kept, axis=-1, keepdims=True)) / self._temperature
        return scaled + self._noise()

    def _noise(self) -> mx.array:
        """Gumbel noise, one key per row. An even width, because MLX lays odd ones out differently."""
        width = self._vocab_size + self._vocab_size % 2
        uniform: Callable[[mx.array], mx.array] = mx.vmap(lambda key: mx.random.uniform(shape=(width,), key=key))
        drawn = mx.maximum(uniform(to_mlx(self._keys()))[:, : self._vocab_size], SMALLEST)
        return -mx.log(-mx.log1p(-drawn))

    def _keys(self) -> NDArray[np.uint32]:
        """Keys of this step, made for a block of steps at once: the hash costs the same for one as for many."""
        if self._block is None or self._used == _KEY_BLOCK:
            pairs = zip(self._seeds, self._step, strict=True)
            self._block = np.stack([step_keys(seed, step, _KEY_BLOCK) for seed, step in pairs])
            self._step = [step + _KEY_BLOCK for step in self._step]
            self._used = 0
        self._used += 1
        return self._block[:, self._used - 1]


class Filters:
    """top_k, top_p and min_p as one threshold per row: everything at least as likely as the last candidate stays."""

    def __init__(
        self, vectors: SamplingVectors, chosen: NDArray[np.int64], inner: NDArray[np.int64], vocab_size: int
    ) -> None:
        rows = chosen[inner]
        self._some = Some(inner, len(chosen))
        top_k, top_p, min_p = vectors.top_k[rows], vectors.top_p[rows], vectors.min_p[rows]
        min_keep = vectors.min_keep[rows]
        limited = top_k > 0
        limit = np.where(limited, np.maximum(top_k, min_keep), vocab_size)
        # How deep the sorted head must reach: all of it for a row with top_p but without top_k.
        depth = np.where(limited, limit, np.where(top_p < 1.0, vocab_size, min_keep))
        self._width = int(depth.max())
        self._last_k = column(np.minimum(limit, self._width).astype(np.int32) - 1)
        self._unlimited = column(~limited)
        self._nucleus = bool((top_p < 1.0).any())
        self._top_p = column(top_p)
        self._no_nucleus = column(top_p >= 1.0)
        self._spare = column(min_keep - 1)
        with np.errstate(divide="ignore"):
            self._log_min_p = column(np.log(min_p))

    def apply(self, logits: mx.array) -> mx.array:
        """Logits with minus infinity for what may not be drawn."""
        return self._some.change(logits, self._cut)

    def _cut(self, logits: mx.array) -> mx.array:
        full = self._width >= logits.shape[-1]
        head = mx.sort(logits if full else mx.topk(logits, self._width, axis=-1), axis=-1)[:, ::-1]
        peak = head[:, :1]
        floor = mx.where(self._unlimited, -mx.inf, mx.take_along_axis(head, self._last_k, axis=-1))
        if self._nucleus:
            floor = mx.maximum(floor, self._nucleus_floor(logits, head, peak, floor))
        spare = mx.take_along_axis(head, self._spare, axis=-1)
        floor = mx.maximum(floor, mx.minimum(peak + self._log_min_p, spare))
        return mx.where(logits >= floor, logits, -mx.inf)

    def _nucleus_floor(self, logits: mx.array, head: mx.array, peak: mx.array, floor: mx.array) -> mx.array:
        """The least likely candidate of the smallest set whose mass, among those above `floor`, reaches top_p."""
        total = mx.sum(mx.where(logits >= floor, mx.exp(logits - peak), 0.0), axis=-1, keepdims=True)
        weights = mx.where(head >= floor, mx.exp(head - peak), 0.0)
        before = mx.cumsum(weights, axis=-1, inclusive=False)
        inside = mx.sum((before < self._top_p * total) & (head >= floor), axis=-1, keepdims=True)
        last = mx.maximum(inside.astype(mx.int32) - 1, self._spare)
        return mx.where(self._no_nucleus, -mx.inf, mx.take_along_axis(head, last, axis=-1))
