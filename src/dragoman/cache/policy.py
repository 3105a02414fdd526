"""Which entry goes next when room is needed. Knows neither bytes nor tokens.

Least recently used first, by weighted age. Age is counted in uses of the cache since the entry's own last one; an
answer ages four times and a whole prompt twice as fast as the stable boundary of a conversation, which every later turn
begins with. So a boundary outlives a prompt, and a prompt an answer, of equal age, but none is kept for ever.
Entries held by a session go only when all others are gone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator

from dragoman.cache.base import EntryKind
from dragoman.cache.entry import Entry

_AGING: dict[EntryKind, int] = {"boundary": 1, "prompt": 2, "answer": 4}


def most_durable(kinds: Iterable[EntryKind]) -> EntryKind:
    """The kind, of at least one, that ages slowest."""
    return min(kinds, key=lambda kind: _AGING[kind])


class EvictionPolicy:
    """One queue for each kind, the least recently used entry first. Choosing a victim takes constant time, but for the
    held entries passed over."""

    def __init__(self) -> None:
        self._queues: dict[EntryKind, OrderedDict[Entry, int]] = {kind: OrderedDict() for kind in _AGING}
        self._uses = 0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def __iter__(self) -> Iterator[Entry]:
        for queue in self._queues.values():
            yield from queue

    def use(self, entry: Entry) -> None:
        """Enter it as the most recently used one."""
        self._uses += 1
        queue = self._queues[entry.kind]
        queue[entry] = self._uses
        queue.move_to_end(entry)

    def remove(self, entry: Entry) -> None:
        """Forget it. Raises KeyError when it is not there."""
        del self._queues[entry.kind][entry]

    def victim(self, held: Container[Entry]) -> Entry | None:
        """The one to go next; None when there is none."""
        free = [entry for queue in self._queues.values() for entry in _first(queue, held)]
        heads = free or [entry for queue in self._queues.values() for entry in _first(queue, ())]
        return max(heads, key=self._weighted_age, default=None)

    def _weighted_age(self, entry: Entry) -> int:
        return (self._uses - self._queues[entry.kind][entry]) * _AGING[entry.kind]


def _first(queue: Iterable[Entry], passed_over: Container[Entry]) -> Iterator[Entry]:
    for entry in queue:
        if entry not in passed_over:
            yield entry
            return
