"""Why no more of a prompt was reused, in words for the log. Changes nothing and counts nothing."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.cache.ghosts import Ghost
from dragoman.cache.packed import token_at
from dragoman.cache.trie import Match

MissReason = Literal["off", "short", "empty", "diverged", "ended", "untrimmable", "evicted", "refused"]

_SENTENCES: dict[MissReason, str] = {
    "off": "The prefix cache is off",
    "short": "The prompt has no token but its last, which is always computed",
    "empty": "No prefix is kept yet",
    "diverged": "The closest kept prefix parts from the prompt after {miss.shared} of its {miss.length} tokens",
    "ended": "The closest kept prefix ends after {miss.shared} tokens",
    "untrimmable": (
        "The closest kept prefix shares {miss.shared} of its {miss.length} tokens and its state cannot be trimmed"
    ),
    "evicted": "A kept prefix of {miss.shared} tokens was evicted to make room",
    "refused": "A prefix of {miss.shared} tokens was too large to be kept",
}


class Miss(Struct, frozen=True, kw_only=True):
    """`usable` tokens can be reused and no more, for `reason`:

    - `off` the cache has no budget; `short` the prompt has no token but its last, which is always computed;
      `empty` nothing is kept in this namespace;
    - `diverged` the closest entry shares `shared` of its `length` tokens, then has `kept` where the prompt has `asked`;
    - `ended` the closest entry ends there, the rest of the prompt is new;
    - `untrimmable` the closest entry shares `shared` of its `length` tokens but its state cannot be trimmed (`kept`
      and `asked` as above; None where it has no other token, but only goes on);
    - `evicted`, `refused` an entry of the first `shared` tokens was there, or was too large to be kept.
    """

    reason: MissReason
    usable: int = 0
    shared: int = 0
    length: int = 0
    kept: int | None = None
    asked: int | None = None

    def __str__(self) -> str:
        return f"{_SENTENCES[self.reason].format(miss=self)}{self._parting}; {self.usable} tokens can be reused."

    @property
    def _parting(self) -> str:
        if self.kept is None or self.asked is None:
            return ""
        return f", where it has token {self.kept} and the prompt has {self.asked}"


def miss_by_ghost(ghost: Ghost, usable: int) -> Miss:
    """The miss of an entry that is gone."""
    return Miss(reason=ghost.fate, usable=usable, shared=ghost.length, length=ghost.length)


def miss_by_nearest(nearest: Match, usable: int, key: bytes, stop: int) -> Miss:
    """The miss of the entry that shares most of the first `stop` tokens of `key`."""
    kept, asked = token_at(nearest.entry.key, nearest.length), token_at(key, nearest.length)
    if nearest.length >= stop or kept is None:
        kept = asked = None
    return Miss(
        reason=_reason(nearest, usable),
        usable=usable,
        shared=nearest.length,
        length=nearest.entry.length,
        kept=kept,
        asked=asked,
    )


def _reason(nearest: Match, usable: int) -> MissReason:
    if nearest.length > usable:
        return "untrimmable"
    return "ended" if nearest.length == nearest.entry.length else "diverged"
