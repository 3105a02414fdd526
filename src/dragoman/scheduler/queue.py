"""Requests that wait for a row: first in, first out, and any of them may leave. Knows no rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from dragoman.scheduler.sequence import Sequence


class WaitingQueue:
    """Sequences in order of arrival. Every operation but going through them takes constant time."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Sequence] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Sequence]:
        """In order of arrival; the queue may be changed meanwhile."""
        return iter(tuple(self._waiting.values()))

    def get(self, id: str) -> Sequence | None:
        """The one of that id."""
        return self._waiting.get(id)

    def push(self, sequence: Sequence) -> None:
        """Put a sequence at the end."""
        self._waiting[sequence.id] = sequence

    def remove(self, id: str) -> Sequence | None:
        """Take the one of that id, wherever it stands."""
        return self._waiting.pop(id, None)
