"""The latest entries of the sessions used lately. A hint and a claim on room; never a condition for a hit."""

from __future__ import annotations

from collections import OrderedDict

from dragoman.cache.entry import Entry

Session = tuple[str, str]
"""Namespace, and the session's name within it."""

_Side = bool
_Claim = tuple[Session, _Side]


class Sessions:
    """At most `limit` sessions; the least recently used one is forgotten first.

    A session holds two entries, as a turn leaves two: one of its prompt (boundary or whole) and one of its answer.
    Where the state cannot be trimmed, either may be the one the next turn begins with. `entry in sessions` tells
    whether any session holds it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Session, dict[_Side, Entry]] = OrderedDict()
        self._claims: dict[Entry, set[_Claim]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, entry: object) -> bool:
        return entry in self._claims

    def held(self, session: Session) -> list[Entry]:
        """What it holds now."""
        return list(self._held.get(session, {}).values())

    def entries(self) -> set[Entry]:
        """What is held by any."""
        return set(self._claims)

    def hold(self, session: Session, entry: Entry) -> None:
        """Make `entry` the latest of its side, and `session` the most recently used one."""
        self._held.setdefault(session, {})
        self._held.move_to_end(session)
        self._claim((session, entry.kind == "answer"), entry)
        while len(self._held) > self._limit:
            oldest, sides = next(iter(self._held.items()))
            for side in list(sides):
                self._release((oldest, side))

    def hand_on(self, old: Entry, new: Entry) -> None:
        """Let `new`, which replaces `old`, be held in its place."""
        for claim in list(self._claims.get(old, ())):
            self._claim(claim, new)

    def forget(self, entry: Entry) -> None:
        """Hold it no longer."""
        for claim in list(self._claims.get(entry, ())):
            self._release(claim)

    def _claim(self, claim: _Claim, entry: Entry) -> None:
        session, side = claim
        self._unclaim(claim)
        self._held[session][side] = entry
        self._claims.setdefault(entry, set()).add(claim)

    def _release(self, claim: _Claim) -> None:
        session, _ = claim
        self._unclaim(claim)
        if not self._held[session]:
            del self._held[session]

    def _unclaim(self, claim: _Claim) -> None:
        session, side = claim
        former = self._held[session].pop(side, None)
        if former is not None:
            self._claims[former].discard(claim)
            if not self._claims[former]:
                del self._claims[former]
