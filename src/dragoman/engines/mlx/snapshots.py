"""The state of a row as the cache tier holds it. Knows cache objects, no model, no row and no prompt."""

from __future__ import annotations

from dragoman.engines.mlx.arrays import start
from dragoman.engines.mlx.caches import compact, copied, is_known, is_trimmable
from dragoman.engines.mlx.row import LayerCaches


class RowSnapshot:
    """Implements `core.snapshot.Snapshot`. Its caches are never fed; rows begin from copies of them."""

    __slots__ = ("_caches", "length", "nbytes", "trimmable")

    def __init__(self, caches: LayerCaches, length: int) -> None:
        self._caches = caches
        self.length = length
        self.trimmable = all(is_trimmable(cache) for cache in caches)
        arrays = compact(caches)
        self.nbytes = sum(array.nbytes for array in arrays)
        # Without waiting: what is still running on the device goes first.
        start(*arrays)

    def begin(self, length: int) -> LayerCaches:
        """Caches of a row that was fed the first `length` tokens."""
        return [copied(cache, self.length - length) for cache in self._caches]


def snapshot_of(caches: LayerCaches, length: int) -> RowSnapshot | None:
    """The state after `length` tokens, apart from `caches`; None when it is empty or of an unknown class."""
    if length < 1 or not all(is_known(cache) for cache in caches):
        return None
    return RowSnapshot([copied(cache) for cache in caches], length)
