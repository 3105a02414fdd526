"""Counter-based randomness: (seed, step) names a key, a key names uniform numbers. Holds no generator state.

The block function is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers, SC11). A draw
therefore depends on nothing but its own seed and step: not on the batch, its order, or what was drawn before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
SMALLEST = 2.0**-33
"""Floor of the uniform numbers: half of their spacing near 0. Bounds the noise of a token at 22.9."""
SPAN = 26.0
"""More than the noise of any two tokens differs by, so a token this far behind the best can never win."""
BLOCK = 16
"""Tokens that share a key of their own within a step. Even, so MLX and the reference lay the numbers out alike."""


def threefry(key: tuple[Words, Words], counter: tuple[Words, Words]) -> tuple[Words, Words]:
    """The two words of the block; keys and counters broadcast against each other."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY))
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    for block in range(5):
        for bits in _ROTATIONS[block % 2]:
            left = left + right
            right = ((right << np.uint32(bits)) | (right >> np.uint32(32 - bits))) ^ left
        left = left + schedule[(block + 1) % 3]
        right = right + schedule[(block + 2) % 3] + np.uint32(block + 1)
    return left, right


def step_keys(seed: int, first: int, count: int) -> Words:
    """Keys of the steps `first` … `first + count - 1`, shape (count, 2). All 64 bits of the seed count."""
    key = (np.array([seed >> 32 & 0xFFFF_FFFF], np.uint32), np.array([seed & 0xFFFF_FFFF], np.uint32))
    steps = np.arange(first, first + count, dtype=np.uint64)
    counter = ((steps >> np.uint64(32)).astype(np.uint32), (steps & np.uint64(0xFFFF_FFFF)).astype(np.uint32))
    return np.stack(threefry(key, counter), axis=-1)


def uniforms(key: Words, count: int) -> NDArray[np.float32]:
    """`count` numbers in [0, 1) for a key of shape (2,); `count` must be even.

    Laid out like `mx.random.uniform` under the same key: word pairs fill the first and second half.
    """
    if count % 2:
        raise ValueError("the number of uniforms must be even")
    half = np.arange(count // 2, dtype=np.uint32)
    return _unit(np.concatenate(threefry((key[:1], key[1:]), (half, half + np.uint32(count // 2)))))


def gumbel(key: Words, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Standard Gumbel noise of the tokens `ids`: -ln(E) with E = -ln(1 - u).

    A token's number depends on its id alone, so noise can be drawn for a few candidates without drawing it for the
    whole vocabulary: ids come in blocks of `BLOCK`, and each block has a key of its own, the key of the step with the
    block's index mixed into its second word. Written with 1 - u because the winner has a small E, and uniform numbers
    are finest near 0.
    """
    words, places = ids.astype(np.uint32), np.uint32(BLOCK)
    inside, half = words % places, places // np.uint32(2)
    low = inside % half
    left, right = threefry((key[:1], key[1:] ^ (words // places)), (low, low + half))
    drawn = np.maximum(_unit(np.where(inside < half, left, right)), np.float32(SMALLEST))
    return -np.log(-np.log1p(-drawn))


def chances(seed: int, first: int, count: int) -> NDArray[np.float32]:
    """One more number in [0, 1) for each of the steps `first` … `first + count - 1`, independent of the noise."""
    keys = step_keys(seed, first, count)
    zero = np.zeros(1, np.uint32)
    return _unit(threefry((~keys[:, 0], keys[:, 1]), (zero, zero))[0])


def _unit(words: Words) -> NDArray[np.float32]:
    """32 bits as a number in [0, 1)."""
    return np.minimum(words.astype(np.float32) * np.float32(2.0**-32), np.float32(1.0 - 2.0**-24))
