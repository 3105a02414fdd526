"""Requests that wait for a row: first in, first out, and any of them may leave. Knows no rows."""

from __future__ import annotations

from collections import OrderedDict

from dragoman.scheduler.sequence import Sequence


class WaitingQueue:
    """Sequences in order of arrival. Every operation takes constant time."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Sequence] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: str) -> bool:
        return id in self._waiting

    def push(self, sequence: Sequence) -> None:
        """Put a sequence at the end."""
        self._waiting[sequence.id] = sequence

    def pop(self) -> Sequence:
        """Take the first one. Raises KeyError when there is none."""
        return self._waiting.popitem(last=False)[1]

    def remove(self, id: str) -> Sequence | None:
        """Take the one of that id, wherever it stands."""
        return self._waiting.pop(id, None)
