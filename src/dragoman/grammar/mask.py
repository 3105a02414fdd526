"""Masks of one answer from its grammar. Knows no engine; called on the engine's thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from dragoman.core.exchange import EngineRequest
from dragoman.grammar.matchers import Matchers

_BITS = 32


class GrammarMask:
    """A core.mask.MaskProvider. Raises RuntimeError with one sentence when the matcher fails, which ends its row."""

    def __init__(self, matcher: LLMatcher, vocabulary_size: int) -> None:
        self.vocabulary_size = vocabulary_size
        self._matcher = matcher
        self._words = -(-vocabulary_size // _BITS)
        self._own: NDArray[np.int32] | None = None
        self._check()

    def fill(self, mask: Any) -> bool:
        """Writes the allowed tokens; ids the tokenizer does not know are forbidden."""
        words: NDArray[np.int32] = mask
        target = words[: self._words]
        if len(words) < self._words or not target.flags.c_contiguous:
            target = self._own = np.zeros(self._words, np.int32) if self._own is None else self._own
        self._matcher.unsafe_compute_mask_ptr(target.ctypes.data, target.nbytes)
        self._check()
        if target is self._own:
            words[:] = target[: len(words)]
        else:
            words[self._words :] = 0
        return True

    def advance(self, token: int) -> None:
        """Take the token in."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def complete(self) -> bool:
        """Whether nothing but the end may follow."""
        return self._matcher.is_stopped()

    def forced(self) -> list[int]:
        """Tokens that must come next, for engines that can append several at once. They are not taken in yet."""
        return self._matcher.compute_ff_tokens()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error().partition("\n")[0])


class MaskFactory:
    """Gives requests their masks; see `LocalBackend(mask_for=...)`."""

    def __init__(self, matchers: Matchers, vocabulary_size: int) -> None:
        self._matchers = matchers
        self._size = vocabulary_size

    def __call__(self, request: EngineRequest) -> GrammarMask | None:
        """None for a request without a grammar."""
        if request.grammar is None:
            return None
        return GrammarMask(self._matchers.matcher(request.grammar), self._size)
