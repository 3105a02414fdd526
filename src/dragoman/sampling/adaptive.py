"""adaptive-p: favours tokens whose probability is near a target that follows what was drawn. Draws nothing itself.

The definition is its authors' paper, MrJackSpade: adaptive-p-docs, sections 3 and 8, and llama.cpp pull request 17927,
constants included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.sampling.filters import Logits

DECAY = 0.9
_MOST_DECAY = 0.99
_PEAK, _SHARPNESS, _WIDTH = 5.0, 10.0, 0.3


@dataclass(frozen=True)
class Average:
    """A decaying average of the probabilities of what was drawn, as sum and weight."""

    total: float
    weight: float

    def with_draw(self, probability: float, decay: float) -> Average:
        """The average after one more token."""
        decay = clamped_decay(decay)
        return Average(probability + decay * self.total, 1.0 + decay * self.weight)


def first_average(target: float, decay: float) -> Average:
    """The average begins as if everything drawn so far had met the target."""
    weight = 1.0 / (1.0 - clamped_decay(decay))
    return Average(target * weight, weight)


def clamped_decay(decay: float) -> float:
    """At most 0.99: the sums must stay bounded."""
    return min(max(decay, 0.0), _MOST_DECAY)


def adapted(weights: NDArray[np.float64], target: float, average: Average) -> Logits:
    """New logits from the probabilities of the candidates: highest at the aim, which lies as far beyond the target as
    the average is off it; falling off quadratically near the aim and linearly far away."""
    wanted = min(max(target, 0.0), 1.0)
    aim = min(max(2.0 * wanted - average.total / average.weight, 0.0), 1.0)
    distance = np.abs(weights - aim) / _WIDTH
    return (_PEAK - _SHARPNESS * distance * distance / (1.0 + distance)).astype(np.float32)
