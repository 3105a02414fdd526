"""Token ids as bytes, so that long prompts compare at memory speed and keep no number objects. Knows no entry."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

# The unsigned code is filled three times as fast as the signed one.
_CODE = "I"
WIDTH = array(_CODE).itemsize
"""Bytes per token."""

_NEAR = 64


def pack(tokens: Sequence[int]) -> bytes | None:
    """The ids, `WIDTH` bytes each; None when one cannot be the id of any token (below 0, or of more than 32 bits)."""
    try:
        return array(_CODE, tokens).tobytes()
    except OverflowError:
        return None


def unpack(key: bytes) -> tuple[int, ...]:
    """The ids of a packed key."""
    tokens = array(_CODE)
    tokens.frombytes(key)
    return tuple(tokens)


def token_at(key: bytes, index: int) -> int | None:
    """The id at `index`, None past the end."""
    return next(iter(unpack(key[index * WIDTH : (index + 1) * WIDTH])), None)


def shared(one: bytes, other: bytes, start: int, stop: int) -> int:
    """How many tokens from `start` on are equal in both keys, looking no further than `stop` or the shorter key."""
    low = start
    high = min(stop, len(one) // WIDTH, len(other) // WIDTH)
    if high <= low:
        return 0
    if _same(one, other, low, high):
        return high - start
    while high - low > _NEAR:
        middle = (low + high) // 2
        if _same(one, other, low, middle):
            low = middle
        else:
            high = middle
    return low - start + _first_difference(_slice(one, low, high), _slice(other, low, high))


def _same(one: bytes, other: bytes, low: int, high: int) -> bool:
    return _slice(one, low, high) == _slice(other, low, high)


def _slice(key: bytes, low: int, high: int) -> bytes:
    return key[low * WIDTH : high * WIDTH]


def _first_difference(one: bytes, other: bytes) -> int:
    """Index of the first token that differs in two unequal keys of the same length."""
    # Read as little-endian numbers, the lowest bit of their XOR lies in the first byte that differs.
    difference = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    lowest = (difference & -difference).bit_length() - 1
    return lowest // (8 * WIDTH)
