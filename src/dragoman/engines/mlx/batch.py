"""Rows decoded together: one set of caches, one sampler. Decides nothing about who runs when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from dragoman.engines.mlx.row import LayerCaches, Row
from dragoman.engines.mlx.sample import Draw, Sampler


class LanguageModel(Protocol):
    """An mlx-lm model: ids (rows, length) and one cache per layer -> logits (rows, length, vocabulary)."""

    def __call__(self, inputs: mx.array, cache: LayerCaches) -> mx.array:
        """Feed the tokens to the caches, which grow in place."""
        ...


class Batch:
    """Rows in a fixed order. A lone row keeps its plain caches, so it pays nothing for batching; several rows share
    mlx-lm's batch caches, padded on the left."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self._caches = _merged([_taken(row) for row in rows])
        self._sampler: Sampler | None = None
        self._newest: mx.array | None = None

    def forward(self, model: LanguageModel, vocab_size: int) -> Draw:
        """Feed every row its newest token and begin the next draw; the result is noted on the rows."""
        if self._sampler is None:
            self._sampler = Sampler(self.rows, vocab_size)
        inputs = mx.array([row.tokens[-1] for row in self.rows]) if self._newest is None else self._newest
        logits = model(inputs[:, None], cache=self._caches)
        draw = self._sampler.draw(logits[:, -1, :])
        draw.start()
        self._newest = draw.tokens
        for position, row in enumerate(self.rows):
            row.fed += 1
            row.drawn += 1
            row.results.append((draw, position))
        return draw

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
        caches, joining = self._batched(), other._batched()
        for cache, more in zip(caches, joining, strict=True):
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

    def _extracted(self, position: int) -> LayerCaches:
        return self._caches if len(self.rows) == 1 else [cache.extract(position) for cache in self._caches]

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
