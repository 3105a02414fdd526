"""Mirostat 1 and 2 (Basu, Ramachandran, Keskar, Varshney: Mirostat, ICLR 2021), in NumPy. Draws nothing itself.

Both hold the surprise of the answer, in bits, near a target `tau`. `mu` bounds the surprise of the next token, and
moves against the error by `eta`.
"""

from __future__ import annotations

import math

import numpy as np

from dragoman.sampling.filters import Kept, Logits, softmax, top_k

TAU, ETA = 5.0, 0.1
_HEAD = 100
"""Most likely tokens that Zipf's exponent is estimated from."""


def first_mu(tau: float) -> float:
    """Where `mu` begins."""
    return 2.0 * tau


def next_mu(mu: float, logits: Logits, chosen: int, tau: float, eta: float) -> float:
    """`mu` after the candidate at place `chosen` was drawn from what was kept."""
    surprise = -math.log2(max(float(softmax(logits)[chosen]), 2.0**-149))
    return mu - eta * (surprise - tau)


def keep_by_surprise(logits: Logits, mu: float) -> Kept:
    """Version 2: the candidates whose surprise is at most `mu`, at least the most likely."""
    with np.errstate(divide="ignore"):
        kept = -np.log2(softmax(logits)) <= mu
    return kept | (logits == np.max(logits)) if not kept.any() else kept


def keep_by_rank(logits: Logits, mu: float, vocab_size: int) -> Kept:
    """Version 1: as many of the most likely as, under Zipf's law with the exponent seen at the head, give a surprise
    of `mu` on average."""
    exponent = zipf_exponent(np.sort(softmax(logits))[::-1][:_HEAD])
    return top_k(logits, _rank(exponent, mu, vocab_size, len(logits)))


def zipf_exponent(head: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Least squares through the ratios of neighbours in rank; 1 where there is nothing to fit."""
    head = head[head > 0]
    if len(head) < 2:
        return 1.0
    ranks = np.arange(1, len(head))
    t, b = np.log((ranks + 1) / ranks), np.log(head[:-1] / head[1:])
    return float(np.sum(t * b) / np.sum(t * t))


def _rank(exponent: float, mu: float, vocab_size: int, most: int) -> int:
    """Rank of the last candidate kept, between 1 and `most`."""
    if exponent < 1e-6:
        return most  # a flat head: no rank tells candidates apart
    epsilon = exponent - 1.0
    if abs(epsilon) < 1e-6:
        scale = 1.0 / math.log(vocab_size) if vocab_size > 1 else 1.0  # the limit for epsilon to 0
    else:
        scale = epsilon / (1.0 - vocab_size**-epsilon) if vocab_size > 1 else 1.0
    log_rank = (math.log(scale) + mu * math.log(2.0)) / exponent
    return max(1, int(math.exp(log_rank))) if log_rank < math.log(most) else most
