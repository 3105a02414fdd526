"""Rows decoded together: one set of caches, one sampler. Decides nothing about who runs when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import start
from dragoman.engines.mlx.caches import compact, is_known, picked
from dragoman.engines.mlx.row import LayerCaches, Row
from dragoman.engines.mlx.sample import Draw, Sampler
from dragoman.sampling.breakers import BreakerResolver


class LanguageModel(Protocol):
    """An mlx-lm model: ids (rows, length) and one cache per layer -> logits (rows, length, vocabulary)."""

    def __call__(self, inputs: mx.array, cache: LayerCaches) -> mx.array:
        """Feed the tokens to the caches, which grow in place."""
        ...


class Batch:
    """Rows in a fixed order. A lone row keeps its plain caches, so it pays nothing for batching; several rows share
    mlx-lm's batch caches, padded on the left."""

    def __init__(self, rows: Sequence[Row], breakers: BreakerResolver | None = None) -> None:
        self.rows = list(rows)
        self._breakers = breakers
        self._caches = _merged([_taken(row) for row in rows])
        self._sampler: Sampler | None = None
        self._newest: Draw | None = None

    @property
    def running(self) -> bool:
        """Whether its rows are those of the last `forward`, so that their newest tokens are on the device."""
        return self._newest is not None

    @property
    def waits(self) -> bool:
        """Whether a `forward` has to wait for the tokens before it, because some row needs them on the CPU."""
        drawn_on_host = self._sampler is not None and self._sampler.waits
        return drawn_on_host or any(row.constraint is not None for row in self.rows)

    def begin(self) -> None:
        """Begin computing the last `forward`, if that has not begun."""
        if self._newest is not None:
            self._newest.start()

    def forward(self, model: LanguageModel, vocab_size: int) -> Draw:
        """Feed every row its newest token and set up the next draw, to be begun by `begin`; the result is noted on the
        rows."""
        if self._sampler is None:
            self._sampler = Sampler(self.rows, vocab_size, self._breakers)
        inputs = mx.array([row.tokens[-1] for row in self.rows]) if self._newest is None else self._newest.tokens
        logits = model(inputs[:, None], cache=self._caches)[:, -1, :]
        masks = self._masks(logits)
        draw = self._sampler.draw(logits, masks)
        self._newest = draw
        for position, row in enumerate(self.rows):
            row.fed += 1
            row.drawn += 1
            row.results.append((draw, position))
        return draw

    def caches_of(self, row: Row) -> LayerCaches:
        """The caches of one row, those it runs with or picked out of the batch; to be copied, not to be fed."""
        return self._picked(self.rows.index(row))

    def keep(self, rows: Sequence[Row]) -> None:
        """Let the others go: open rows take their cache with them, closed ones lose it. `rows` is not empty."""
        if len(rows) == len(self.rows):
            return
        for position, row in enumerate(self.rows):
            if row not in rows and not row.closed:
                row.caches = self._extracted(position)
        positions = [i for i, row in enumerate(self.rows) if row in rows]
        if len(positions) == 1:
            self._caches = self._extracted(positions[0])
        else:
            for cache in self._caches:
                cache.filter(mx.array(positions))
        self.rows = [self.rows[i] for i in positions]
        self._changed()

    def extend(self, other: Batch) -> None:
        """Take over the rows of `other`, behind one's own."""
        if len(self.rows) == len(other.rows) == 1:
            self._caches = _merged([self._caches, other._caches])
        else:
            caches = self._batched()
            for cache, more in zip(caches, other._batched(), strict=True):
                cache.extend(more)
            self._caches = caches
        self.rows = [*self.rows, *other.rows]
        self._changed()

    def release(self) -> None:
        """Give every open row its own cache back."""
        for position, row in enumerate(self.rows):
            if not row.closed:
                row.caches = self._extracted(position)
        self.rows = []

    def _batched(self) -> LayerCaches:
        return self._caches if len(self.rows) > 1 else [cache.merge([cache]) for cache in self._caches]

    def _masks(self, logits: mx.array) -> dict[int, NDArray[np.int32]]:
        """What constrained rows may draw, by position; the device computes the logits meanwhile."""
        constrained = [(i, row, row.constraint) for i, row in enumerate(self.rows) if row.constraint is not None]
        masks = dict[int, NDArray[np.int32]]()
        if not constrained:
            return masks
        start(logits)
        for position, row, constraint in constrained:
            row.inform(constraint)
            words = constraint.mask()
            if words is not None:
                masks[position] = words
        return masks

    def _extracted(self, position: int) -> LayerCaches:
        """The caches of one row for it to go on with, without the storage of the others."""
        caches = self._picked(position)
        if len(self.rows) > 1 and all(is_known(cache) for cache in caches):
            compact(caches)
        return caches

    def _picked(self, position: int) -> LayerCaches:
        fed = self.rows[position].fed
        return self._caches if len(self.rows) == 1 else [picked(cache, position, fed) for cache in self._caches]

    def _changed(self) -> None:
        self._sampler = None
        self._newest = None


def _taken(row: Row) -> LayerCaches:
    caches, row.caches = row.caches, None
    if caches is None:
        raise RuntimeError("the row is already in a batch")
    return caches


def _merged(rows: Sequence[LayerCaches]) -> LayerCaches:
    if len(rows) == 1:
        return rows[0]
    return [layer[0].merge(list(layer)) for layer in zip(*rows, strict=True)]
