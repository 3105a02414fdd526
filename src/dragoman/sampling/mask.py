"""Allowed tokens as bits, unpacked to one boolean per token. Knows no grammar.

The layout is llguidance's: bit t % 32 of int32 word t // 32 is set where token t is allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unpacked(mask: NDArray[np.int32], vocab_size: int) -> NDArray[np.bool_]:
    """Shape (vocab_size,). Ids beyond the mask's words are forbidden: a tokenizer often knows fewer ids than a model
    has logits."""
    octets = np.ascontiguousarray(mask, dtype="<i4").view(np.uint8)
    bits = np.unpackbits(octets, bitorder="little", count=min(vocab_size, octets.size * 8))
    allowed = np.zeros(vocab_size, dtype=np.bool_)
    allowed[: len(bits)] = bits
    return allowed


def packed(allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The words of ceil(len(allowed) / 32), the inverse of `unpacked`."""
    octets = np.zeros(-(-len(allowed) // 32) * 4, dtype=np.uint8)
    bits = np.packbits(allowed, bitorder="little")
    octets[: len(bits)] = bits
    return octets.view("<i4").astype(np.int32)


def forbid(logits: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> NDArray[np.float32]:
    """Logits with minus infinity where nothing is allowed; None allows everything."""
    return logits if allowed is None else np.where(allowed, logits, np.float32(-np.inf))
