"""What may be done with mlx-lm's cache objects beside feeding them: copy, cut, pick out of a batch, pack, weigh.

Only classes whose state is known completely are touched. Python's array objects are changed in place by writes into
their slices, so no two caches may ever hold the same one: a slice is always a new object, and shares its storage
until one of the two is written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx

from dragoman.engines.mlx.load import import_mlx_lm
from dragoman.engines.mlx.packed import PackedBatch, PackedCache
from dragoman.engines.mlx.row import LayerCaches

_library: Any = import_mlx_lm("models.cache")


def copied(cache: Any, drop: int = 0) -> Any:
    """A cache of one row without its last `drop` tokens, independent of `cache`. KeyError for unknown classes."""
    return _CUTS[type(cache)](cache, drop)


def is_known(cache: Any) -> bool:
    """Whether `copied` can copy it."""
    if isinstance(cache, _library.CacheList):
        return type(cache) is _library.CacheList and all(is_known(inner) for inner in cache.caches)
    return type(cache) in _CUTS


def is_trimmable(cache: Any) -> bool:
    """Whether `copied` may drop tokens: nothing they displaced is missing, and no state was folded into one."""
    if isinstance(cache, _library.CacheList):
        return all(is_trimmable(inner) for inner in cache.caches)
    if isinstance(cache, _library.ChunkedKVCache):
        return bool(cache.start_position == 0)
    return bool(cache.is_trimmable())


def picked(cache: Any, position: int, length: int) -> Any:
    """The row at `position` of a batch cache, which holds `length` tokens of it; may share storage with the batch."""
    if isinstance(cache, _library.CacheList):
        return _library.CacheList(*(picked(inner, position, length) for inner in cache.caches))
    if isinstance(cache, PackedBatch):
        return cache.pick(position, length)
    if isinstance(cache, _library.ArraysCache):
        return _picked_arrays(cache, position)
    if type(cache) is _library.BatchKVCache and cache.keys is not None:
        return _picked_keys(cache, position, length)
    return cache.extract(position)


def compact(caches: LayerCaches) -> list[mx.array]:
    """Let each cache own exactly the bytes it uses; gives the arrays there are, still to be computed."""
    arrays = list[mx.array]()
    for cache in caches:
        for holder, name in _places(cache):
            value = getattr(holder, name)
            fresh = _contiguous(value)
            setattr(holder, name, fresh)
            arrays += _leaves(fresh)
    return arrays


def arrays_of(caches: LayerCaches) -> list[mx.array]:
    """Every array the caches hold."""
    return [leaf for cache in caches for holder, name in _places(cache) for leaf in _leaves(getattr(holder, name))]


def packed(caches: LayerCaches, group_size: int, bits: int) -> LayerCaches:
    """The same caches with plain keys and values quantised; sliding and recurrent ones stay as they are."""
    return [_packed(cache, group_size, bits) for cache in caches]


def is_packed(cache: Any) -> bool:
    """Whether it, or a part of it, is quantised."""
    if isinstance(cache, _library.CacheList):
        return any(is_packed(inner) for inner in cache.caches)
    return isinstance(cache, PackedCache | PackedBatch)


def window_of(cache: Any) -> int | None:
    """Tokens a sliding cache holds at most, 0 for a recurrent one, None for one that grows without end."""
    if isinstance(cache, _library.RotatingKVCache):
        return int(cache.max_size)
    if isinstance(cache, _library.ChunkedKVCache):
        return int(cache.chunk_size)
    return 0 if isinstance(cache, _library.ArraysCache) else None


def parts_of(cache: Any) -> Iterator[Any]:
    """The cache itself, or those of a list."""
    if isinstance(cache, _library.CacheList):
        for inner in cache.caches:
            yield from parts_of(inner)
    else:
        yield cache


def _cut_list(cache: Any, drop: int) -> Any:
    return _library.CacheList(*(copied(inner, drop) for inner in cache.caches))


def _cut_plain(cache: Any, drop: int) -> Any:
    fresh = type(cache)()
    fresh.offset = cache.offset - drop
    _slice_into(fresh, cache, fresh.offset)
    return fresh


def _cut_chunked(cache: Any, drop: int) -> Any:
    fresh = type(cache)(cache.chunk_size)
    fresh.start_position = cache.start_position
    fresh.offset = cache.offset - drop
    _slice_into(fresh, cache, fresh.offset - fresh.start_position)
    return fresh


def _cut_rotating(cache: Any, drop: int) -> Any:
    """A window that has wrapped keeps its order; a long chunk may have left more than the window, which goes."""
    fresh = type(cache)(cache.max_size, cache.keep)
    fresh.offset = cache.offset - drop
    if cache.offset < cache.max_size or cache.keys is None:
        fresh._idx = fresh.offset
        _slice_into(fresh, cache, fresh.offset)
        return fresh
    excess = cache.keys.shape[2] - cache.max_size
    for name in ("keys", "values"):
        value = getattr(cache, name)
        setattr(fresh, name, cache._trim(excess, value) if excess > 0 else value[...])
    fresh._idx = cache.max_size if excess > 0 else cache._idx
    return fresh


def _cut_arrays(cache: Any, drop: int) -> Any:
    fresh = type(cache)(len(cache.cache))
    fresh.cache = [None if value is None else value[...] for value in cache.cache]
    fresh.left_padding = None if cache.left_padding is None else cache.left_padding[...]
    fresh.lengths = None if cache.lengths is None else cache.lengths[...]
    return fresh


def _cut_packed(cache: PackedCache, drop: int) -> PackedCache:
    return cache.cut(drop)


_CUTS: dict[type, Callable[[Any, int], Any]] = {
    _library.KVCache: _cut_plain,
    _library.ConcatenateKVCache: _cut_plain,
    _library.RotatingKVCache: _cut_rotating,
    _library.ChunkedKVCache: _cut_chunked,
    _library.ArraysCache: _cut_arrays,
    _library.CacheList: _cut_list,
    PackedCache: _cut_packed,
}


def _slice_into(fresh: Any, cache: Any, count: int) -> None:
    if cache.keys is not None:
        fresh.keys = cache.keys[..., :count, :]
        fresh.values = cache.values[..., :count, :]


def _picked_arrays(cache: Any, position: int) -> Any:
    fresh = type(cache)(len(cache.cache))
    fresh.cache = [None if value is None else value[position : position + 1] for value in cache.cache]
    return fresh


def _picked_keys(cache: Any, position: int, length: int) -> Any:
    """What mlx-lm's `extract` gives, without waiting for the device to tell the padding."""
    fresh = _library.KVCache()
    begin, line = cache._idx - length, slice(position, position + 1)
    fresh.keys = cache.keys[line, :, begin : cache._idx]
    fresh.values = cache.values[line, :, begin : cache._idx]
    fresh.offset = length
    return fresh


def _packed(cache: Any, group_size: int, bits: int) -> Any:
    if type(cache) is _library.CacheList:
        return _library.CacheList(*(_packed(inner, group_size, bits) for inner in cache.caches))
    if type(cache) is not _library.KVCache:
        return cache
    fresh = PackedCache(group_size, bits)
    if cache.keys is not None:
        fresh.fill(cache.keys[..., : cache.offset, :], cache.values[..., : cache.offset, :])
    return fresh


def _places(cache: Any) -> Iterator[tuple[Any, str]]:
    """Where a cache keeps its arrays: attributes with an array, a list of them, or None."""
    for part in parts_of(cache):
        if isinstance(part, PackedCache):
            yield part, "parts"
        elif isinstance(part, _library.ArraysCache):
            yield part, "cache"
        else:
            yield part, "keys"
            yield part, "values"


def _contiguous(value: Any) -> Any:
    if isinstance(value, mx.array):
        return mx.contiguous(value)
    return None if value is None else type(value)(_contiguous(inner) for inner in value)


def _leaves(value: Any) -> list[mx.array]:
    if isinstance(value, mx.array):
        return [value]
    return [] if value is None else [leaf for inner in value for leaf in _leaves(inner)]
