"""DRY: penalises tokens that would carry on a repetition, harder the longer it is. Knows no tokenizer.

The definition is p-e-w's (text-generation-webui pull request 5677), with breakers of several tokens and the rule that
a breaker is never penalised as in llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.sampling.breakers import Breakers

BASE, ALLOWED_LENGTH, WINDOW = 1.75, 2, -1
"""Values of unset fields."""

_LARGEST_LOG = 88.7228
"""Natural logarithm of the largest float32; a longer repetition costs no more."""


@dataclass(frozen=True)
class Dry:
    """A penalty of `multiplier * base ** (n - allowed_length)` on the token that would make a repetition of `n` tokens
    one longer, for n >= allowed_length, within the last `window` tokens (-1 all). A base below 1 switches it off."""

    multiplier: float
    base: float
    allowed_length: int
    window: int
    breakers: Breakers

    def penalties(self, history: Sequence[int]) -> dict[int, float]:
        """What to subtract from which token's logit."""
        recent = np.asarray(history if self.window < 0 else history[-self.window :], dtype=np.int64)
        if self.multiplier == 0.0 or self.base < 1.0 or self.window == 0 or len(recent) < 2:
            return {}
        longest = self.breakers.distance(recent.tolist())
        if longest < self.allowed_length:
            return {}
        lengths = repeats(recent, min(longest, self.allowed_length + self._exponent()))
        places = np.flatnonzero(lengths >= self.allowed_length)
        found: dict[int, int] = {}
        for token, length in zip(recent[places].tolist(), lengths[places].tolist(), strict=True):
            found[token] = max(found.get(token, 0), length)
        return {
            token: self.multiplier * self.base ** (length - self.allowed_length)
            for token, length in found.items()
            if token not in self.breakers.single
        }

    def _exponent(self) -> int:
        """The largest exponent that leaves a float32."""
        return int(_LARGEST_LOG / math.log(self.base)) if self.base > 1.000001 else 1 << 30


def repeats(tokens: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """For each place, how many tokens before it equal the last tokens of all, counted up to `most`; shape as `tokens`.
    The token at such a place is the one that followed the last time."""
    size = len(tokens)
    lengths = np.zeros(size, dtype=np.int64)
    places = np.arange(1, size)
    for length in range(1, min(most, size - 1) + 1):
        places = places[places >= length]
        places = places[tokens[places - length] == tokens[size - length]]
        if not len(places):
            break
        lengths[places] = length
    return lengths
