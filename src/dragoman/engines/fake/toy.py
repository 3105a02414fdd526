"""A toy language model: logits that are a pure function of every token seen. Knows nothing of rows or sampling.

Integer hashing and one multiplication make them the same on every machine. Letters and spaces are likely, the end
of a turn is possible, control tokens other than the end tokens and all tags are impossible (minus infinity).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dragoman.engines.fake.tokenizer import BYTES, EOS, TURN_END, FakeTokenizer

Logits = NDArray[np.float32]

EMPTY_STATE = 0xCBF29CE484222325
_MASK = (1 << 64) - 1
_PRIME = 0x100000001B3
_SPREAD = 6.0


def advance(state: int, tokens: Iterable[int]) -> int:
    """The state after more tokens (FNV-1a over whole ids). Chunking does not matter."""
    for token in tokens:
        state = ((state ^ token) * _PRIME) & _MASK
    return state


def mix(value: int) -> int:
    """A well spread 64-bit number for a 64-bit number (the finaliser of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class ToyModel:
    """Logits over a toy vocabulary, float32, one row at a time."""

    def __init__(self, vocabulary: FakeTokenizer) -> None:
        self._prior = _prior(vocabulary)
        self._steps = np.arange(1, vocabulary.size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)

    def logits(self, state: int) -> Logits:
        """The row for a state; shape (vocabulary size,), a fresh array."""
        mixed = np.uint64(mix(state)) + self._steps
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        unit = (mixed >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        return unit * np.float32(_SPREAD) + self._prior


def _prior(vocabulary: FakeTokenizer) -> Logits:
    """Logit offsets that make toy text look like words: printable ASCII, mostly small letters and spaces."""
    prior = np.full(vocabulary.size, -np.inf, dtype=np.float32)
    prior[:BYTES] = -12.0
    prior[0x21:0x7F] = -4.0
    prior[ord("a") : ord("z") + 1] = 0.0
    prior[ord(" ")] = 1.0
    prior[vocabulary.special(TURN_END)] = -1.5
    prior[vocabulary.special(EOS)] = -3.0
    return prior
