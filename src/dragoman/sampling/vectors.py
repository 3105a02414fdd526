"""Turns sampling specs into per-row arrays with neutral values for unset fields. Does not touch logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.chain import chain_of, in_force, is_natural
from dragoman.sampling.temper import HLG_OFFSET, HLG_SHOULDER, HLG_TOE

_DRY = frozenset(
    {"dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_window", "dry_sequence_breakers"},
)

HONOURED_WITH_BREAKERS = frozenset(SamplingSpec.__struct_fields__)
"""SamplingSpec fields the samplers built on these vectors honour: all. DRY needs a `BreakerResolver`."""

HONOURED = HONOURED_WITH_BREAKERS - _DRY
"""The same without a way to turn DRY's sequence breakers into tokens."""

DEFAULT_PENALTY_WINDOW = 64
"""Tokens a penalty looks back when the request names no window (llama.cpp's default, so both engines agree).

One window serves all three penalties, as on llama-server; mlx-lm's separate context sizes have no place in the spec."""

XTC_THRESHOLD = 0.1
"""For a request that names only a probability; llama.cpp's default."""


@dataclass(frozen=True)
class SamplingVectors:
    """One entry per row. Neutral: temperature 1, top_k 0, top_p 1, min_p 0, typical_p 1, top_n_sigma 0,
    xtc_probability 0, dynatemp_range 0, hlg_width infinite, repetition 1, presence and frequency 0.

    `window` is in tokens (-1 all, 0 none). `seed` holds the full 64 bits. `special` rows cannot be drawn by one pass
    over all rows: their stages come in an order of their own, or need to know each token before the next (DRY,
    mirostat, adaptive-p). `greedy` rows take the most likely token and need neither filters nor noise: temperature 0 or
    less, one candidate (top_k 1), or no mass (top_p 0).
    """

    temperature: NDArray[np.float32]
    top_k: NDArray[np.int32]
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]
    typical_p: NDArray[np.float32]
    top_n_sigma: NDArray[np.float32]
    xtc_probability: NDArray[np.float32]
    xtc_threshold: NDArray[np.float32]
    dynatemp_range: NDArray[np.float32]
    dynatemp_exponent: NDArray[np.float32]
    hlg_width: NDArray[np.float32]
    hlg_shoulder: NDArray[np.float32]
    hlg_toe: NDArray[np.float32]
    hlg_offset: NDArray[np.float32]
    min_keep: NDArray[np.int32]
    repetition: NDArray[np.float32]
    presence: NDArray[np.float32]
    frequency: NDArray[np.float32]
    window: NDArray[np.int32]
    min_tokens: NDArray[np.int32]
    seed: NDArray[np.uint64]
    special: NDArray[np.bool_]
    greedy: NDArray[np.bool_]

    @property
    def penalised(self) -> NDArray[np.bool_]:
        """Rows whose logits depend on what was said before."""
        changed = (self.repetition != 1.0) | (self.presence != 0.0) | (self.frequency != 0.0)
        return changed & (self.window != 0)

    @property
    def filtered(self) -> NDArray[np.bool_]:
        """Rows that cut candidates before the draw."""
        common = (self.top_k > 0) | (self.top_p < 1.0) | (self.min_p > 0.0) | (self.typical_p < 1.0)
        return ~self.greedy & (common | (self.top_n_sigma > 0.0) | (self.xtc_probability > 0.0))


def vectors_of(specs: Sequence[SamplingSpec], vocab_size: int) -> SamplingVectors:
    """Arrays of one entry per spec; stages outside a spec's chain are neutral. A `top_k` of the whole vocabulary or
    more is off, like 0 and below; `min_p` is capped at 1, where only the most likely token is left."""
    chains = [chain_of(spec) for spec in specs]
    given = [in_force(spec, chain) for spec, chain in zip(specs, chains, strict=True)]

    def column(name: str, neutral: float, dtype: type[Any] = np.float32) -> NDArray[Any]:
        return np.array([fields.get(name, neutral) for fields in given], dtype=dtype)

    temperature = column("temperature", 1.0)
    # Wire integers may be larger than the arrays hold; a window or count beyond the vocabulary or context is "all".
    top_k = np.clip(column("top_k", 0, np.float64), 0, vocab_size).astype(np.int32)
    top_p = column("top_p", 1.0)
    min_keep = np.clip(column("min_keep", 0, np.float64), 1, vocab_size).astype(np.int32)
    single = ((top_k == 1) | (top_p <= 0.0)) & (min_keep == 1)
    threshold = column("xtc_threshold", XTC_THRESHOLD)
    return SamplingVectors(
        temperature=temperature,
        top_k=np.where(top_k >= vocab_size, 0, top_k).astype(np.int32),
        top_p=top_p,
        min_p=np.clip(column("min_p", 0.0), 0.0, 1.0),
        typical_p=column("typical_p", 1.0),
        top_n_sigma=np.maximum(column("top_n_sigma", 0.0), np.float32(0.0)),
        # Above one half at most one candidate can be that likely, so nothing is ever excluded.
        xtc_probability=np.where(threshold > 0.5, np.float32(0.0), column("xtc_probability", 0.0)),
        xtc_threshold=threshold,
        dynatemp_range=np.maximum(column("dynatemp_range", 0.0), np.float32(0.0)),
        dynatemp_exponent=column("dynatemp_exponent", 1.0),
        hlg_width=np.maximum(column("hlg_width", np.inf), np.float32(0.0)),
        hlg_shoulder=column("hlg_shoulder", HLG_SHOULDER),
        hlg_toe=column("hlg_toe", HLG_TOE),
        hlg_offset=column("hlg_offset", HLG_OFFSET),
        min_keep=min_keep,
        repetition=column("repetition_penalty", 1.0),
        presence=column("presence_penalty", 0.0),
        frequency=column("frequency_penalty", 0.0),
        window=_clipped(column("penalty_window", DEFAULT_PENALTY_WINDOW, np.float64), -1),
        min_tokens=_clipped(column("min_tokens", 0, np.float64), 0),
        seed=np.array([(spec.seed or 0) & 0xFFFF_FFFF_FFFF_FFFF for spec in specs], dtype=np.uint64),
        special=np.array([not is_natural(chain) for chain in chains], dtype=np.bool_),
        greedy=(temperature <= 0.0) | single,
    )


def _clipped(values: NDArray[np.float64], low: int) -> NDArray[np.int32]:
    return np.clip(values, low, np.iinfo(np.int32).max).astype(np.int32)
