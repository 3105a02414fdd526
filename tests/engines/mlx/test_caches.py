"""Copies of cache objects are cut right, share nothing that is written to, and are refused for unknown classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, ConcatenateKVCache, KVCache, RotatingKVCache

from dragoman.engines.mlx.caches import copied, is_known, is_trimmable
from dragoman.engines.mlx.packed import PackedCache
from dragoman.engines.mlx.snapshots import snapshot_of

pytestmark = pytest.mark.mlx

KINDS: dict[str, Callable[[], Any]] = {
    "plain": KVCache,
    "concatenated": ConcatenateKVCache,
    "packed": lambda: PackedCache(32, 8),
    "chunked": lambda: ChunkedKVCache(64),
    "rotating": lambda: RotatingKVCache(max_size=16),
    "pinned": lambda: RotatingKVCache(max_size=16, keep=4),
}


def tokens(begin: int, count: int) -> mx.array:
    """Keys that tell their position."""
    places = np.arange(begin, begin + count, dtype=np.float32).reshape(1, 1, count, 1)
    return mx.array(np.broadcast_to(places, (1, 2, count, 32)).copy())


def fed(cache: Any, *counts: int, begin: int = 0) -> Any:
    for count in counts:
        cache.update_and_fetch(tokens(begin, count), tokens(begin, count))
        begin += count
    return cache


def last(cache: Any, begin: int, count: int) -> list[Any]:
    """What attention gets after more tokens."""
    keys, values = cache.update_and_fetch(tokens(begin, count), tokens(begin, count))
    parts = [*keys, *values] if isinstance(keys, tuple) else [keys, values]
    return [np.array(part).tolist() for part in parts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(5,), (5, 1, 1), (12, 1, 1, 1, 1, 1, 1), (30,), (30, 1), (9, 9), (1, 300)])
@pytest.mark.parametrize("more", [1, 3])
def test_a_copy_goes_on_like_the_original(kind: str, counts: tuple[int, ...], more: int) -> None:
    length = sum(counts)
    donor, twin = fed(KINDS[kind](), *counts), fed(KINDS[kind](), *counts)
    snapshot = snapshot_of([donor], length)
    assert snapshot is not None
    fed(donor, 1, more, begin=700)
    first = snapshot.begin(length)[0]
    fed(first, more, 1, begin=800)

    expected = last(twin, length, more)

    assert last(snapshot.begin(length)[0], length, more) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_copy_goes_on_like_one_that_was_fed_less(kind: str) -> None:
    whole = fed(KINDS[kind](), 10, 1, 1)
    assert is_trimmable(whole)
    for length in (1, 6, 11):
        cut = copied(whole, 12 - length)
        assert cut.offset == length
        assert last(cut, length, 3) == last(fed(KINDS[kind](), length), length, 3)
        assert last(copied(whole, 12 - length), length, 1) == last(fed(KINDS[kind](), length), length, 1)
    assert whole.offset == 12


def test_what_was_displaced_cannot_be_brought_back() -> None:
    chunked = fed(ChunkedKVCache(8), 12)
    assert is_trimmable(chunked)
    chunked.maybe_trim_front()

    assert not is_trimmable(chunked)
    assert not is_trimmable(fed(RotatingKVCache(max_size=16), 16))
    assert not is_trimmable(CacheList(KVCache(), ArraysCache(2)))
    assert is_trimmable(CacheList(KVCache(), KVCache()))


def test_arrays_replaced_or_written_in_place_stay_apart() -> None:
    donor = ArraysCache(3)
    donor[0], donor[1] = mx.zeros((1, 4)), mx.ones((1, 4))
    snapshot = snapshot_of([CacheList(donor, fed(KVCache(), 2))], 2)
    assert snapshot is not None
    assert not snapshot.trimmable
    donor[0][0, 1] = 9.0
    first = snapshot.begin(2)[0][0]
    first[1][0, 2] = 7.0
    second = snapshot.begin(2)[0][0]

    assert [donor[0].tolist(), donor[1].tolist()] == [[[0, 9, 0, 0]], [[1, 1, 1, 1]]]
    assert [first[0].tolist(), first[1].tolist()] == [[[0, 0, 0, 0]], [[1, 1, 7, 1]]]
    assert [second[0].tolist(), second[1].tolist(), second[2]] == [[[0, 0, 0, 0]], [[1, 1, 1, 1]], None]


def test_an_unknown_class_is_not_kept() -> None:
    class Special(KVCache):
        """Might hold more than its parent."""

    class Pair(CacheList):
        """Might too."""

    assert not is_known(Special())
    assert snapshot_of([fed(KVCache(), 3), fed(Special(), 3)], 3) is None
    assert snapshot_of([CacheList(fed(Special(), 3))], 3) is None
    assert snapshot_of([Pair(fed(KVCache(), 3))], 3) is None


def test_a_wrapped_window_keeps_no_more_than_the_window() -> None:
    snapshot = snapshot_of([fed(RotatingKVCache(max_size=16), 30)], 30)

    assert snapshot is not None
    assert snapshot.nbytes == 2 * 16 * 2 * 32 * 4
