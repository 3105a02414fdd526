"""Single-flight prefill: requests whose prompts begin alike let one of them compute the beginning, then fork from it.

Knows sequences and their prompts; rows, queue and budgets are the scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Tokens

from dragoman.cache.base import Hit
from dragoman.core.snapshot import Snapshot
from dragoman.scheduler.prefixes import BLOCK, Prefixes
from dragoman.scheduler.sequence import Sequence


class Sharing:
    """Finds what a request can begin with.

    A request follows one row at a time, and only for tokens that row has still to compute, so it waits no longer than
    that row's prefill takes; it keeps its place in the queue meanwhile.
    """

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes

    def enlist(self, sequence: Sequence, prefilling: Iterable[Sequence]) -> None:
        """Let a request that waits for its turn follow a row that is about to compute much of its prompt, so that the
        row's state is kept for it. What the cache has for it is guessed from what it had for the row."""
        if sequence.leader is not None or not self._may_share(sequence):
            return
        for shared, row in _sources(sequence, prefilling, _least(sequence.fork)):
            if shared > row.fed and shared >= row.cached + BLOCK:
                _follow(sequence, row, shared)
                return

    def prefix_for(self, sequence: Sequence, rows: Iterable[Sequence]) -> Hit | None:
        """What a request whose turn it is begins with, best of cache and rows in use. If following one of the rows
        serves it better, `sequence.is_held` is set instead, until that row has come far enough."""
        if not sequence.may_reuse:
            return None
        known = _longer(self._prefixes.take(sequence.request), sequence.fork)
        if not self._may_share(sequence):
            return known
        if sequence.leader is not None and sequence.awaited >= _least(known):
            sequence.is_held = True
            return None
        self.unfollow(sequence)
        may_fork = True
        for shared, row in _sources(sequence, rows, _least(known)):
            if shared > row.fed:
                _follow(sequence, row, shared)
                sequence.is_held = True
                return None
            if may_fork:
                hit = _usable(self._prefixes.capture(row), shared)
                if hit is not None:
                    return hit
                may_fork = False
        return known

    def reached(self, leader: Sequence, snapshot: Snapshot | None, *, may_hold: bool) -> None:
        """The leader has prefilled as much as some followers waited for, and that is its state. Without `may_hold`
        they look again when there is a row for them; without a state they compute their prompts themselves."""
        for follower in leader.followers.pop(leader.prefilled, []):
            _free(follower)
            follower.is_alone = follower.is_alone or snapshot is None
            if may_hold:
                follower.fork = _usable(snapshot, leader.prefilled) or follower.fork

    def left(self, leader: Sequence, snapshot: Snapshot | None, *, may_hold: bool) -> None:
        """The leader ended early. Its followers are free; what it computed until then serves them, too."""
        for point, followers in leader.followers.items():
            for follower in followers:
                _free(follower)
                if may_hold and snapshot is not None:
                    hit = _usable(snapshot, min(point, snapshot.length))
                    follower.fork = hit if hit is not None and hit.length >= _least(follower.fork) else follower.fork
        leader.followers.clear()

    def unfollow(self, sequence: Sequence) -> None:
        """The sequence does not wait for another one any more."""
        leader = sequence.leader
        if leader is None:
            return
        _free(sequence)
        leader.followers[sequence.awaited].remove(sequence)
        if not leader.followers[sequence.awaited]:
            del leader.followers[sequence.awaited]

    def _may_share(self, sequence: Sequence) -> bool:
        return self._prefixes.can_capture and not sequence.is_alone


def common_prefix(one: Tokens[int], other: Tokens[int]) -> int:
    """How many leading tokens are the same. Compares slices, halving, because that runs at the speed of memory."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _sources(sequence: Sequence, rows: Iterable[Sequence], least: int) -> list[tuple[int, Sequence]]:
    """Rows that share at least that many leading tokens with it, the most first, of equal ones the furthest first."""
    namespace = sequence.request.namespace
    found = [(_shared(sequence, row), row) for row in rows if row.request.namespace == namespace]
    return sorted((pair for pair in found if pair[0] >= least), key=lambda pair: (-pair[0], -pair[1].fed))


def _shared(sequence: Sequence, row: Sequence) -> int:
    """Leading prompt tokens the row has processed or will before it decodes; never the last token of the prompt."""
    prompt = sequence.request.prompt
    shared = common_prefix(prompt, row.request.prompt)
    if shared == row.prompt_tokens:
        shared += common_prefix(prompt[shared:], tuple(row.answer))
    return min(shared, len(prompt) - 1, max(row.fed, row.prompt_tokens - 1))


def _least(known: Hit | None) -> int:
    """The length from which a prefix is worth more than the one that is known."""
    return BLOCK + (known.length if known else 0)


def _longer(one: Hit | None, other: Hit | None) -> Hit | None:
    return other if one is None or (other is not None and other.length > one.length) else one


def _follow(sequence: Sequence, leader: Sequence, point: int) -> None:
    sequence.leader = leader
    sequence.awaited = point
    leader.followers.setdefault(point, []).append(sequence)


def _free(sequence: Sequence) -> None:
    sequence.leader = None
    sequence.is_held = False


def _usable(snapshot: Snapshot | None, length: int) -> Hit | None:
    """That many tokens out of the snapshot, if it can give them."""
    if snapshot is None or length > snapshot.length or (length < snapshot.length and not snapshot.trimmable):
        return None
    return Hit(length, snapshot)
