"""Quantised key-value caches, of one row and of several padded on the left, as mlx-lm's attention takes them.

mlx-lm has the first kind only, and no way to decode its rows together. Knows arrays, no model and no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import mlx.core as mx

from dragoman.engines.mlx.arrays import to_list
from dragoman.engines.mlx.load import import_mlx_lm

_STEP = 256
_attention_mask: Callable[..., Any] = import_mlx_lm("models.cache").create_attention_mask
_causal_mask: Callable[..., mx.array] = import_mlx_lm("models.base").create_causal_mask
Parts = tuple[mx.array, ...]
"""Codes, scales and biases of the keys, then those of the values; each of shape (rows, heads, tokens, width)."""


class Packed:
    """Storage common to both. `bits` and `group_size` tell mlx-lm's attention that what it gets is quantised."""

    def __init__(self, group_size: int, bits: int) -> None:
        self.group_size = group_size
        self.bits = bits
        self.parts: Parts | None = None
        self.used: int = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Parts, Parts]:
        """Append keys and values of shape (rows, heads, tokens, width); all that is held, quantised."""
        fresh = self._quantized(keys) + self._quantized(values)
        begin, end = self.used, self.used + keys.shape[2]
        parts = self._with_room(fresh, end)
        for part, new in zip(parts, fresh, strict=True):
            part[..., begin:end, :] = new
        self.parts = parts
        self.used = end
        self._grown(keys.shape[2])
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Parts, Parts]:
        """What is held."""
        held = tuple(part[..., : self.used, :] for part in self.parts or ())
        return held[:3], held[3:]

    @property
    def state(self) -> Parts:
        """Every array there is to compute."""
        return self.parts or ()

    @property
    def nbytes(self) -> int:
        """Bytes of storage, with the room to grow."""
        return sum(part.nbytes for part in self.parts or ())

    def size(self) -> int:
        """Tokens held, padding included."""
        return self.used

    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return self.parts is None

    def is_trimmable(self) -> bool:
        """Always."""
        return True

    def fill(self, keys: mx.array, values: mx.array) -> None:
        """Take over what an unquantised cache held."""
        self.parts = self._quantized(keys) + self._quantized(values)
        self.used = keys.shape[2]

    def _grown(self, count: int) -> None:
        """`count` tokens were appended."""

    def _quantized(self, values: mx.array) -> Parts:
        return tuple(cast("Sequence[mx.array]", mx.quantize(values, group_size=self.group_size, bits=self.bits)))

    def _with_room(self, like: Parts, tokens: int) -> Parts:
        if self.parts is not None and tokens <= self.parts[0].shape[2]:
            return self.parts
        more = -(-(tokens - self.used) // _STEP) * _STEP
        room = tuple(mx.zeros((*part.shape[:2], more, part.shape[3]), part.dtype) for part in like)
        if self.parts is None:
            return room
        held = [part[..., : self.used, :] for part in self.parts]
        return tuple(mx.concatenate([old, new], axis=2) for old, new in zip(held, room, strict=True))


class PackedCache(Packed):
    """Of one row."""

    @property
    def offset(self) -> int:
        """Position of the next token."""
        return self.used

    def make_mask(self, count: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """As mlx-lm's own caches answer: None, 'causal' or an array."""
        return _attention_mask(count, offset=self.used, return_array=return_array, window_size=window_size)

    def trim(self, count: int) -> int:
        """Forget the last `count` tokens; gives how many that were."""
        count = min(count, self.used)
        self.used -= count
        return count

    def cut(self, drop: int) -> PackedCache:
        """A cache of its own with all but the last `drop` tokens, sharing what it can."""
        fresh = PackedCache(self.group_size, self.bits)
        fresh.used = self.used - drop
        fresh.parts = None if self.parts is None else tuple(part[..., : fresh.used, :] for part in self.parts)
        return fresh

    @classmethod
    def merge(cls, caches: Sequence[PackedCache]) -> PackedBatch:
        """One cache for all rows; none of them is changed."""
        return PackedBatch.merge(caches)


class PackedBatch(Packed):
    """Of several rows, the shorter ones padded on the left. `offset` is the position of each row's next token."""

    def __init__(self, group_size: int, bits: int, left_padding: mx.array) -> None:
        super().__init__(group_size, bits)
        self.left_padding = left_padding
        self.offset = -left_padding

    @classmethod
    def merge(cls, caches: Sequence[PackedCache]) -> PackedBatch:
        """Rows in the order of `caches`."""
        longest = max(cache.used for cache in caches)
        padding = [longest - cache.used for cache in caches]
        batch = cls(caches[0].group_size, caches[0].bits, mx.array(padding))
        like = next((cache.parts for cache in caches if cache.parts is not None), None)
        if like is None:
            return batch
        lines = [_padded(cache, like, pad) for cache, pad in zip(caches, padding, strict=True)]
        batch.parts = tuple(mx.concatenate(list(column), axis=0) for column in zip(*lines, strict=True))
        batch.used = longest
        batch.offset = batch.offset + longest
        return batch

    def make_mask(self, count: int, return_array: bool = False, window_size: int | None = None) -> mx.array:
        """Causal, without the padding; shape (rows, 1, count, tokens)."""
        return _causal_mask(count, offset=self.used, left_padding=self.left_padding, window_size=window_size)

    def filter(self, positions: mx.array) -> None:
        """Keep these rows, in this order; padding none of them needs goes too."""
        self.left_padding = self.left_padding[positions]
        self.offset = self.offset[positions]
        if self.parts is None:
            return
        spare = int(min(to_list(self.left_padding)))
        self.parts = tuple(part[positions][..., spare : self.used, :] for part in self.parts)
        self.used -= spare
        self.left_padding = self.left_padding - spare

    def extend(self, other: PackedBatch) -> None:
        """Take the rows of `other` in, behind one's own."""
        longest = max(self.used, other.used)
        like = self.parts or other.parts
        self.left_padding = mx.concatenate([b.left_padding + (longest - b.used) for b in (self, other)])
        self.offset = mx.concatenate([self.offset, other.offset])
        if like is not None:
            ours, theirs = (_padded(batch, like, longest - batch.used) for batch in (self, other))
            self.parts = tuple(mx.concatenate([a, b], axis=0) for a, b in zip(ours, theirs, strict=True))
        self.used = longest

    def extract(self, position: int) -> PackedCache:
        """The cache of one row; this one is not changed."""
        return self.pick(position, int(to_list(self.offset)[position]))

    def pick(self, position: int, length: int) -> PackedCache:
        """The cache of one row, known to hold `length` tokens, sharing what it can."""
        fresh = PackedCache(self.group_size, self.bits)
        fresh.used = length
        begin, line = self.used - length, slice(position, position + 1)
        fresh.parts = None if self.parts is None else tuple(part[line, :, begin : self.used] for part in self.parts)
        return fresh

    def _grown(self, count: int) -> None:
        self.offset = self.offset + count


def _padded(cache: PackedCache | PackedBatch, like: Parts, pad: int) -> list[mx.array]:
    """What it holds, moved right by `pad` tokens; an empty one as zeros shaped like `like`."""
    if cache.parts is None:
        rows = cache.offset.shape[0] if isinstance(cache, PackedBatch) else 1
        return [mx.zeros((rows, part.shape[1], pad, part.shape[3]), part.dtype) for part in like]
    held = [part[..., : cache.used, :] for part in cache.parts]
    return [mx.pad(part, [(0, 0), (0, 0), (pad, 0), (0, 0)]) for part in held] if pad else held
