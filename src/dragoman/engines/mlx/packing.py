"""When and how a row's caches are quantised. Knows caches, no batch and no scheduler."""

from __future__ import annotations

from dragoman.engines.mlx.caches import is_packed, packed
from dragoman.engines.mlx.row import LayerCaches, Row


class Packing:
    """`bits` 0 turns it off. A row is quantised as a whole, before it is fed its token number `start` (from 0), so
    that neither chunks nor neighbours change what it computes."""

    def __init__(self, bits: int = 0, group_size: int = 64, start: int = 0) -> None:
        self.on = bits > 0
        self._bits = bits
        self._group_size = group_size
        self._start = start

    @property
    def later(self) -> int | None:
        """Tokens after which a row that began plain is quantised; None when that never happens."""
        return self._start if self.on and self._start > 0 else None

    def new(self, caches: LayerCaches) -> LayerCaches:
        """Empty caches as rows begin with."""
        return self.pack(caches) if self.on and self._start <= 0 else caches

    def pack(self, caches: LayerCaches) -> LayerCaches:
        """The same caches, quantised."""
        return packed(caches, self._group_size, self._bits)

    def is_due(self, row: Row) -> bool:
        """Whether the row must be quantised before it is fed more."""
        return self.later is not None and not row.packed and row.fed >= self.later

    def convert(self, row: Row) -> None:
        """Quantise a row that holds its own caches."""
        if row.caches is None:
            raise RuntimeError("the row is in a batch")
        row.caches = self.pack(row.caches)
        row.packed = True

    def piece(self, row: Row, count: int) -> int:
        """How many of the next `count` tokens are fed before the row is due."""
        return count if self.later is None or row.packed else min(count, self.later - row.fed)

    def is_packed(self, caches: LayerCaches) -> bool:
        """Whether caches out of a snapshot are quantised already."""
        return any(is_packed(cache) for cache in caches)
