"""Addends to logits: logit_bias, ignore_eos and min_tokens as dense rows. Knows no engine."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dragoman.core.errors import InvalidField
from dragoman.core.sampling import SamplingSpec


def bias_row(spec: SamplingSpec, stop_tokens: frozenset[int], vocab_size: int) -> NDArray[np.float32] | None:
    """What to add to a row's logits at every step, shape (vocab_size,); None when that is nothing.

    `ignore_eos` bans every stop token, whatever `logit_bias` says of it.
    """
    if not spec.logit_bias and not spec.ignore_eos:
        return None
    row = np.zeros(vocab_size, dtype=np.float32)
    for token, addend in (spec.logit_bias or {}).items():
        if 0 <= token < vocab_size:
            row[token] = addend
    return row + ban_row(stop_tokens, vocab_size) if spec.ignore_eos else row


def ban_row(tokens: Iterable[int], vocab_size: int) -> NDArray[np.float32]:
    """Zeros with minus infinity at `tokens`."""
    row = np.zeros(vocab_size, dtype=np.float32)
    row[[token for token in tokens if 0 <= token < vocab_size]] = -np.inf
    return row


def check_bias(spec: SamplingSpec, vocab_size: int) -> None:
    """Raises InvalidField for a biased id the model does not have, or a bias that is no usable number."""
    for token, addend in (spec.logit_bias or {}).items():
        if not 0 <= token < vocab_size:
            raise InvalidField(
                f"Token id {token} is outside the vocabulary of this model (0 to {vocab_size - 1}).",
                field="logit_bias",
            )
        if np.isnan(addend) or addend == np.inf:
            raise InvalidField(
                f"The bias of token {token} must be a finite number or minus infinity.", field="logit_bias"
            )
