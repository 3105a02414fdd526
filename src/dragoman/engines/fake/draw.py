"""Drawing a token of the toy model: penalties, bias, bans, filters and a draw keyed by (seed, step).

A small sampler of its own, because a fake engine may lean on nothing it is used to test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.core.logprobs import TokenLogprob, TokenLogprobs
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.fake.toy import Logits, mix

HONOURED: frozenset[str] = frozenset(
    {
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "penalty_window",
        "logit_bias",
        "min_tokens",
        "ignore_eos",
        "seed",
    }
)
"""The SamplingSpec fields that count for toy logits."""

_NO_LOGPROB = -9999.0


def adjusted(logits: Logits, spec: SamplingSpec, context: Sequence[int], banned: Iterable[int]) -> Logits:
    """Logits after penalties over `context` (prompt and answer), bias and bans: what log probabilities report."""
    logits = _penalised(logits, spec, context)
    for token, bias in (spec.logit_bias or {}).items():
        if 0 <= token < len(logits):
            logits[token] += bias
    for token in banned:
        logits[token] = -np.inf
    return logits


def _penalised(logits: Logits, spec: SamplingSpec, context: Sequence[int]) -> Logits:
    repetition, presence, frequency = spec.repetition_penalty, spec.presence_penalty, spec.frequency_penalty
    window = -1 if spec.penalty_window is None else spec.penalty_window
    recent = context if window < 0 else context[max(0, len(context) - window) :]
    if not recent or (repetition in (None, 1.0) and not presence and not frequency):
        return logits
    counts = np.bincount(np.asarray(recent), minlength=len(logits)).astype(np.float32)
    seen = counts > 0
    if repetition is not None:
        logits = np.where(seen, np.where(logits > 0, logits / repetition, logits * repetition), logits)
    return (logits - seen * np.float32(presence or 0) - counts * np.float32(frequency or 0)).astype(np.float32)


def masked(logits: Logits, words: NDArray[np.int32]) -> Logits:
    """Logits with minus infinity for every token whose bit (t % 32 of word t // 32) is not set."""
    allowed = np.unpackbits(words.astype("<i4").view(np.uint8), bitorder="little")[: len(logits)].astype(np.bool_)
    return np.where(allowed, logits, -np.inf).astype(np.float32)


def draw(logits: Logits, spec: SamplingSpec, step: int) -> int:
    """The token for adjusted logits: greedy at temperature 0 or none, else a draw that only (seed, step) decides."""
    if spec.temperature is None or spec.temperature <= 0:
        return int(np.argmax(logits))
    kept = _filtered(logits, spec)
    weights = np.exp((kept - kept.max()).astype(np.float64) / spec.temperature)
    edges = weights.cumsum()
    point = mix(mix(spec.seed or 0) ^ step) / 2.0**64 * float(edges[-1])
    return min(int(edges.searchsorted(point, side="right")), int(weights.nonzero()[0][-1]))


def _filtered(logits: Logits, spec: SamplingSpec) -> Logits:
    """Logits with all that top-k, top-p and min-p drop at minus infinity; the best token always stays."""
    if not spec.top_k and not spec.min_p and (spec.top_p is None or spec.top_p >= 1):
        return logits
    order = np.argsort(-logits, kind="stable")
    ranked = logits[order]
    keep = np.ones(len(logits), dtype=np.bool_)
    if spec.top_k:
        keep[spec.top_k :] = False
    chances = np.exp((ranked - ranked[0]).astype(np.float64)) * keep
    chances /= chances.sum()
    if spec.top_p is not None and spec.top_p < 1:
        keep &= chances.cumsum() - chances < spec.top_p
    if spec.min_p:
        keep &= chances >= spec.min_p * chances[0]
    keep[0] = True
    kept = np.full(len(logits), -np.inf, dtype=np.float32)
    kept[order[keep]] = ranked[keep]
    return kept


def report(logits: Logits, token: int, alternatives: int) -> TokenLogprobs:
    """Log probabilities of adjusted logits: the chosen token and the `alternatives` most likely ones."""
    logprobs = _log_softmax(logits)
    best = np.argsort(-logprobs, kind="stable")[:alternatives]
    return TokenLogprobs(_entry(logprobs, token), tuple(_entry(logprobs, int(rival)) for rival in best))


def _log_softmax(logits: Logits) -> NDArray[np.float64]:
    shifted = (logits - logits.max()).astype(np.float64)
    return shifted - np.log(np.exp(shifted).sum())


def _entry(logprobs: NDArray[np.float64], token: int) -> TokenLogprob:
    value = float(logprobs[token])
    return TokenLogprob(token, max(value, _NO_LOGPROB) if value == value else _NO_LOGPROB)
