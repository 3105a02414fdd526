"""Token counts within penalty windows, and what they do to logits. Knows no engine and keeps no history itself.

The window slides over prompt and answer as in llama-server: the last `window` tokens, -1 for all, 0 for none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def window_counts(tokens: Sequence[int], window: int, vocab_size: int) -> NDArray[np.int32]:
    """How often each id occurs in the last `window` tokens; shape (vocab_size,). Ids outside are not counted."""
    if window == 0:
        return np.zeros(vocab_size, dtype=np.int32)
    inside = np.asarray(tokens if window < 0 else tokens[-window:], dtype=np.int64)
    known = inside[(inside >= 0) & (inside < vocab_size)]
    return np.bincount(known, minlength=vocab_size).astype(np.int32)


def leaving_index(length: int, window: int) -> int | None:
    """Which token of a history that has just grown to `length` dropped out of the window; None if none did."""
    index = length - window - 1
    return index if window > 0 and index >= 0 else None


def penalise(
    logits: NDArray[np.float32], counts: NDArray[np.int32], repetition: float, presence: float, frequency: float
) -> NDArray[np.float32]:
    """Penalised logits of one row.

    Repetition divides positive and multiplies negative logits of seen ids (Keskar et al., CTRL, 2019); then
    `count * frequency + presence` is subtracted (OpenAI API reference).
    """
    seen = counts > 0
    damped = np.where(logits > 0, logits / np.float32(repetition), logits * np.float32(repetition))
    addend = counts.astype(np.float32) * np.float32(frequency) + seen.astype(np.float32) * np.float32(presence)
    return np.where(seen, damped - addend, logits).astype(np.float32)
