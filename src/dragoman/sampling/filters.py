"""Filters of candidates by their definitions, in NumPy. Each looks at one row and only says what stays.

Every function takes the logits of the candidates (finite, any order) and gives a boolean for each. Candidates that tie
with the last one kept are kept too: the kept set then depends on the logits alone, never on how a sort orders equals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Kept = NDArray[np.bool_]

_HEAD = 1024


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Probabilities of logits, in float64."""
    weights = np.exp(logits.astype(np.float64) - np.max(logits))
    return weights / np.sum(weights)


def entropy(weights: NDArray[np.float64]) -> float:
    """Shannon entropy in nats; what cannot happen adds nothing."""
    positive = weights[weights > 0]
    return float(-np.sum(positive * np.log(positive)))


def top_k(logits: Logits, k: int) -> Kept:
    """The `k` most likely (Fan, Lewis, Dauphin 2018); all for k < 1."""
    if not 0 < k < len(logits):
        return np.ones(len(logits), dtype=np.bool_)
    return logits >= np.partition(logits, -k)[-k]


def top_p(logits: Logits, p: float, min_keep: int = 1) -> Kept:
    """The smallest set of most likely candidates whose mass reaches `p` (Holtzman et al. 2020), at least `min_keep`."""
    if p >= 1.0:
        return np.ones(len(logits), dtype=np.bool_)
    peak = np.max(logits)
    total = np.sum(np.exp((logits - peak).astype(np.float64)))
    # Most of the mass is nearly always in a small head, and a vocabulary is slow to sort.
    size = min(max(_HEAD, min_keep), len(logits))
    ordered = np.sort(np.partition(logits, -size)[-size:])[::-1]
    mass = np.cumsum(np.exp((ordered - peak).astype(np.float64))) / total
    if mass[-1] < p and size < len(logits):
        ordered = np.sort(logits)[::-1]
        mass = np.cumsum(np.exp((ordered - peak).astype(np.float64))) / total
    return logits >= ordered[_count(mass, p, min_keep) - 1]


def typical(logits: Logits, p: float, min_keep: int = 1) -> Kept:
    """The smallest set of candidates whose mass reaches `p`, those first whose surprise is nearest to the expected one,
    the entropy (Meister, Pimentel, Wiher, Cotterell 2022), at least `min_keep`."""
    if p >= 1.0:
        return np.ones(len(logits), dtype=np.bool_)
    weights = softmax(logits)
    with np.errstate(divide="ignore"):
        # In float32, so that equal logits have equal gaps in any arithmetic.
        gap = np.abs(-np.log(weights) - entropy(weights)).astype(np.float32)
    order = np.argsort(gap)
    return gap <= gap[order[_count(np.cumsum(weights[order]), p, min_keep) - 1]]


def min_p(logits: Logits, p: float, min_keep: int = 1) -> Kept:
    """Candidates at least `p` times as likely as the most likely one (Nguyen et al. 2024), at least `min_keep`."""
    if p <= 0.0:
        return np.ones(len(logits), dtype=np.bool_)
    return logits >= min(np.max(logits) + np.log(np.float32(p)), _last_of(logits, min_keep))


def top_n_sigma(logits: Logits, n: float) -> Kept:
    """Candidates within `n` standard deviations of the best logit (Tang et al. 2024); all for n <= 0."""
    if n <= 0.0:
        return np.ones(len(logits), dtype=np.bool_)
    return logits >= np.max(logits) - np.float32(n * np.std(logits.astype(np.float64)))


def xtc(logits: Logits, threshold: float, min_keep: int = 1) -> Kept:
    """Excludes top choices: of the candidates at least as likely as `threshold` only the least likely stays, and
    what is less likely (p-e-w, text-generation-webui pull request 6335). Nothing is excluded above a threshold of one
    half, nor where fewer than `min_keep` would stay, as in llama.cpp."""
    above = softmax(logits).astype(np.float32) >= np.float32(threshold)
    if threshold > 0.5 or not above.any():
        return np.ones(len(logits), dtype=np.bool_)
    kept = logits <= np.min(logits[above])
    return kept if np.count_nonzero(kept) >= min_keep else np.ones(len(logits), dtype=np.bool_)


def _count(mass: NDArray[np.float64], p: float, min_keep: int) -> int:
    """How many of the candidates with running sums `mass` it takes to reach `p`."""
    return min(max(int(np.searchsorted(mass, p, side="left")) + 1, min_keep), len(mass))


def _last_of(logits: Logits, count: int) -> np.float32:
    """The logit of the `count`-th most likely, or of the last."""
    count = min(count, len(logits))
    return np.partition(logits, -count)[-count]
