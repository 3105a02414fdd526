"""Turns sampling specs into per-row arrays with neutral values for unset fields. Does not touch logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.core.sampling import SamplingSpec

HONOURED = frozenset(
    {
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "min_keep",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "penalty_window",
        "logit_bias",
        "ignore_eos",
        "min_tokens",
        "seed",
    }
)
"""SamplingSpec fields these vectors and the samplers built on them honour."""

DEFAULT_PENALTY_WINDOW = 64
"""Tokens a penalty looks back when the request names no window (llama.cpp's default, so both engines agree)."""


@dataclass(frozen=True)
class SamplingVectors:
    """One entry per row. Neutral: temperature 1, top_k 0, top_p 1, min_p 0, repetition 1, presence and frequency 0.

    `window` is in tokens (-1 all, 0 none). `seed` holds the full 64 bits. `greedy` rows take the most likely token
    and need neither filters nor noise: temperature 0 or less, one candidate (top_k 1), or no mass (top_p 0).
    """

    temperature: NDArray[np.float32]
    top_k: NDArray[np.int32]
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]
    min_keep: NDArray[np.int32]
    repetition: NDArray[np.float32]
    presence: NDArray[np.float32]
    frequency: NDArray[np.float32]
    window: NDArray[np.int32]
    min_tokens: NDArray[np.int32]
    seed: NDArray[np.uint64]
    greedy: NDArray[np.bool_]

    @property
    def penalised(self) -> NDArray[np.bool_]:
        """Rows whose logits depend on what was said before."""
        changed = (self.repetition != 1.0) | (self.presence != 0.0) | (self.frequency != 0.0)
        return changed & (self.window != 0)

    @property
    def filtered(self) -> NDArray[np.bool_]:
        """Rows that cut candidates before the draw."""
        return ~self.greedy & ((self.top_k > 0) | (self.top_p < 1.0) | (self.min_p > 0.0))


def vectors_of(specs: Sequence[SamplingSpec], vocab_size: int) -> SamplingVectors:
    """Arrays of one entry per spec. A `top_k` of the whole vocabulary or more is off, like 0 and below; `min_p` is
    capped at 1, where only the most likely token is left."""

    def column(name: str, neutral: float, dtype: type[Any]) -> NDArray[Any]:
        values = [getattr(spec, name) for spec in specs]
        return np.array([neutral if value is None else value for value in values], dtype=dtype)

    temperature = column("temperature", 1.0, np.float32)
    # Wire integers may be larger than the arrays hold; a window or count beyond the vocabulary or context is "all".
    top_k = np.clip(column("top_k", 0, np.float64), 0, vocab_size).astype(np.int32)
    top_p = column("top_p", 1.0, np.float32)
    min_keep = np.clip(column("min_keep", 0, np.float64), 1, vocab_size).astype(np.int32)
    single = ((top_k == 1) | (top_p <= 0.0)) & (min_keep == 1)
    return SamplingVectors(
        temperature=temperature,
        top_k=np.where(top_k >= vocab_size, 0, top_k).astype(np.int32),
        top_p=top_p,
        min_p=np.clip(column("min_p", 0.0, np.float32), 0.0, 1.0),
        min_keep=min_keep,
        repetition=column("repetition_penalty", 1.0, np.float32),
        presence=column("presence_penalty", 0.0, np.float32),
        frequency=column("frequency_penalty", 0.0, np.float32),
        window=_clipped(column("penalty_window", DEFAULT_PENALTY_WINDOW, np.float64), -1),
        min_tokens=_clipped(column("min_tokens", 0, np.float64), 0),
        seed=np.array([(spec.seed or 0) & 0xFFFF_FFFF_FFFF_FFFF for spec in specs], dtype=np.uint64),
        greedy=(temperature <= 0.0) | single,
    )


def _clipped(values: NDArray[np.float64], low: int) -> NDArray[np.int32]:
    return np.clip(values, low, np.iinfo(np.int32).max).astype(np.int32)
