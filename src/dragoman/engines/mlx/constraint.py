"""A row's mask provider, told every token exactly once and asked for one mask a step. Knows no batch and no device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.core.mask import MaskProvider

Words = NDArray[np.int32]


class Constraint:
    """Turns what goes wrong in the provider into a sentence, so that it ends its own row only."""

    def __init__(self, provider: MaskProvider, vocab_size: int) -> None:
        self._provider = provider
        self._words: Words = np.zeros((vocab_size + 31) // 32, np.int32)
        self._known = 0
        self._ended = False
        self._fault: tuple[int, str] | None = None

    def learn(self, index: int, token: int) -> None:
        """The answer's token number `index`, counted from 0, is `token`. Repeats are ignored."""
        if index < self._known or self._fault is not None or self._ended:
            return
        self._known = index + 1
        try:
            self._provider.advance(token)
            self._ended = self._provider.complete
        except Exception as error:
            self._fail(index, error)

    def mask(self) -> Words | None:
        """The tokens allowed next, in a buffer that the next call overwrites; None when all are."""
        if self._fault is not None or self._ended:
            return None
        try:
            filled = self._provider.fill(self._words)
        except Exception as error:
            self._fail(self._known, error)
            return None
        return self._words if filled else None

    @property
    def complete(self) -> bool:
        """Whether the answer has ended with the last token learnt."""
        return self._ended

    def fault(self, index: int) -> str | None:
        """Why the answer's token number `index` cannot be given."""
        return self._fault[1] if self._fault is not None and index >= self._fault[0] else None

    def _fail(self, index: int, error: Any) -> None:
        self._fault = (index, f"The constraint of the answer failed: {error}")
