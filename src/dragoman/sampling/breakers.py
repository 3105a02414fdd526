"""Strings that end a repetition for DRY, as token ids. Knows the text of every token, but no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT_BREAKERS = ("\n", ":", '"', "*")
"""llama.cpp's breakers, for a request that names none."""

_LONGEST_TAIL = 20
_REMEMBERED = 32


@dataclass(frozen=True)
class Breakers:
    """`single` holds tokens that contain a breaker whole. `tails` maps a token whose text ends with the beginning of a
    breaker to the token sequences that complete it."""

    single: frozenset[int] = frozenset()
    tails: Mapping[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict[int, tuple[tuple[int, ...], ...]])

    def distance(self, tokens: Sequence[int]) -> int:
        """How many tokens follow the last breaker; all of them when there is none."""
        for back in range(len(tokens)):
            place = len(tokens) - 1 - back
            if tokens[place] in self.single:
                return back
            # The tail must have been said already, and belongs to the breaker.
            fits = [
                len(tail)
                for tail in self.tails.get(tokens[place], ())
                if tuple(tokens[place + 1 : place + 1 + len(tail)]) == tail
            ]
            if fits:
                return back - max(fits)
        return len(tokens)


BreakerResolver = Callable[[tuple[str, ...]], Breakers]
"""Strings to token ids, for one vocabulary."""


class BreakerTable:
    """Finds breakers in a vocabulary. `pieces` is the text of every token by id, '' for control tokens; `encode` gives
    the ids of a text without special tokens around it. Implements BreakerResolver."""

    def __init__(self, pieces: Sequence[str], encode: Callable[[str], Sequence[int]]) -> None:
        self._pieces = pieces
        self._encode = encode
        self._known: dict[tuple[str, ...], Breakers] = {}

    def __call__(self, words: tuple[str, ...]) -> Breakers:
        """One pass over the vocabulary for strings not seen lately."""
        found = self._known.get(words)
        if found is None:
            while len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            found = self._known[words] = self._find(tuple(word for word in words if word))
        return found

    def _find(self, words: tuple[str, ...]) -> Breakers:
        single: set[int] = set()
        tails: dict[int, tuple[tuple[int, ...], ...]] = {}
        heads = [(word[:cut], self._tail(word[cut:])) for word in words for cut in range(1, len(word))]
        for token, piece in enumerate(self._pieces):
            if any(word in piece for word in words):
                single.add(token)
            elif found := tuple(tail for head, tail in heads if tail and piece.endswith(head)):
                tails[token] = found
        return Breakers(frozenset(single), tails)

    def _tail(self, text: str) -> tuple[int, ...]:
        return tuple(self._encode(text))[:_LONGEST_TAIL]
