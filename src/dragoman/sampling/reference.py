"""The sampler written plainly, one row at a time, as the yardstick of the vectorised one. Not used for serving.

Stages in order: bias, penalties, [reported distribution], top_k, top_p, min_p, temperature, draw. Filters come before
the temperature as in llama.cpp's default chain, so a hot temperature never brings back what a filter removed.
Candidates that tie with the last one kept by a filter are kept too: the kept set then depends on the logits alone,
never on how a sort orders equals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.bias import ban_row, bias_row
from dragoman.sampling.noise import gumbel, step_keys
from dragoman.sampling.penalties import penalise, window_counts
from dragoman.sampling.vectors import vectors_of

Row = NDArray[np.float32]


def processed(logits: Row, spec: SamplingSpec, history: Sequence[int], step: int, stop_tokens: frozenset[int]) -> Row:
    """Logits after bias and penalties: what reported log probabilities are made of.

    `history` is the prompt and the answer so far; `step` counts the answer's tokens before this one, so stop tokens
    are banned while `step < min_tokens`.
    """
    size = len(logits)
    vectors = vectors_of([spec], size)
    row = logits.astype(np.float32)
    if (bias := bias_row(spec, stop_tokens, size)) is not None:
        row = row + bias
    if step < vectors.min_tokens[0]:
        row = row + ban_row(stop_tokens, size)
    if vectors.penalised[0]:
        counts = window_counts(history, int(vectors.window[0]), size)
        row = penalise(row, counts, vectors.repetition[0], vectors.presence[0], vectors.frequency[0])
    return row


def keep_top_k(row: Row, k: int) -> Row:
    """The `k` most likely candidates (Fan, Lewis, Dauphin 2018); all for k < 1."""
    if not 0 < k < len(row):
        return row
    floor = np.sort(row)[-k]
    return np.where(row >= floor, row, -np.inf).astype(np.float32)


def keep_top_p(row: Row, p: float, min_keep: int = 1) -> Row:
    """The smallest set of most likely candidates whose mass reaches `p` (Holtzman et al. 2020), at least `min_keep`."""
    if p >= 1.0:
        return row
    ordered = np.sort(row)[::-1]
    mass = np.cumsum(softmax(ordered).astype(np.float64))
    count = max(int(np.searchsorted(mass, p, side="left")) + 1, min_keep)
    return np.where(row >= ordered[min(count, len(row)) - 1], row, -np.inf).astype(np.float32)


def keep_min_p(row: Row, p: float, min_keep: int = 1) -> Row:
    """Candidates at least `p` times as likely as the most likely one (Nguyen et al. 2024), at least `min_keep`."""
    if p <= 0.0:
        return row
    floor = min(np.max(row) + np.log(np.float32(p)), np.sort(row)[-min_keep])
    return np.where(row >= floor, row, -np.inf).astype(np.float32)


def filtered(row: Row, spec: SamplingSpec) -> Row:
    """Processed logits with every candidate removed that may not be drawn."""
    vectors = vectors_of([spec], len(row))
    min_keep = int(vectors.min_keep[0])
    top_k = int(vectors.top_k[0])
    row = keep_top_k(row, max(top_k, min_keep) if top_k > 0 else 0)
    row = keep_top_p(row, float(vectors.top_p[0]), min_keep)
    return keep_min_p(row, float(vectors.min_p[0]), min_keep)


def distribution(row: Row, spec: SamplingSpec) -> NDArray[np.float64]:
    """Probabilities of the draw, from processed logits. One-hot for a greedy row."""
    vectors = vectors_of([spec], len(row))
    if vectors.greedy[0]:
        return np.eye(len(row), dtype=np.float64)[int(np.argmax(row))]
    cut = filtered(row, spec).astype(np.float64)
    return softmax((cut - np.max(cut)) / float(vectors.temperature[0]))


def draw(row: Row, spec: SamplingSpec, step: int) -> int:
    """The token of (seed, step) from processed logits: Gumbel-max (Maddison, Tarlow, Minka 2014)."""
    vectors = vectors_of([spec], len(row))
    if vectors.greedy[0]:
        return int(np.argmax(row))
    cut = filtered(row, spec)
    noise = gumbel(step_keys(int(vectors.seed[0]), step, 1)[0], len(row))
    return int(np.argmax((cut - np.max(cut)) / vectors.temperature[0] + noise))


def log_probabilities(row: Row) -> NDArray[np.float64]:
    """Natural logarithms of the reported distribution, from processed logits."""
    shifted = row.astype(np.float64) - np.max(row)
    return shifted - np.log(np.sum(np.exp(shifted)))


def softmax(row: NDArray[np.floating]) -> NDArray[np.float64]:
    """Probabilities of logits, in float64."""
    weights = np.exp(row.astype(np.float64) - np.max(row))
    return weights / np.sum(weights)
