"""What makes a distribution flatter or sharper: temperature, dynamic temperature and the HLG curve, in NumPy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dragoman.sampling.filters import Logits, entropy, softmax

HLG_SHOULDER, HLG_TOE, HLG_OFFSET = 4.0, 6.0, 6.0
"""Shape of the HLG curve where a request gives only its width."""


def tempered(logits: Logits, temperature: float) -> Logits:
    """Logits over a temperature above 0. The peak is taken off first: a tiny temperature then drives the others to
    minus infinity, never two of them to plus infinity."""
    return (logits - np.max(logits)) / np.float32(temperature)


def dynamic_temperature(logits: Logits, temperature: float, spread: float, exponent: float) -> float:
    """A temperature between `temperature - spread` (at least 0) and `temperature + spread`, the nearer to the upper end
    the nearer the entropy of the candidates is to its maximum (kalomaze; llama.cpp pull request 4972)."""
    low, high = max(0.0, temperature - spread), temperature + spread
    if len(logits) < 2:
        return temperature
    normalised = min(max(entropy(softmax(logits)) / math.log(len(logits)), 0.0), 1.0)
    return low + (high - low) * normalised**exponent


def hlg(
    logits: Logits, temperature: float, width: float, shoulder: float, toe: float, offset: float
) -> NDArray[np.float32]:
    """Logits along the hybrid log-gamma curve: slope 1 / temperature within `width` of the pivot, the best logit less
    `offset`; beyond, logarithmic with `shoulder` above and `toe` below, joined smoothly. A side whose parameter is 0
    or less stays straight. Monotone, so the best stays the best."""
    z = logits.astype(np.float64) - (float(np.max(logits)) - offset)
    above, below = np.maximum(z - width, 0.0), np.maximum(-z - width, 0.0)
    bent = np.clip(z, -width, width)
    bent = bent + (shoulder * np.log1p(above / shoulder) if shoulder > 0 else above)
    bent = bent - (toe * np.log1p(below / toe) if toe > 0 else below)
    return (bent / temperature).astype(np.float32)
