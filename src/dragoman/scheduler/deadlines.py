"""Which requests are out of time. Knows ids and times of one monotonic clock, and nothing of the requests."""

from __future__ import annotations

import heapq


class Deadlines:
    """Times by which requests must have ended, in seconds. Those that end before are simply not asked for again."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, at: float, id: str) -> None:
        """Note a deadline."""
        heapq.heappush(self._heap, (at, id))

    def passed(self, now: float) -> list[str]:
        """The ids whose deadline has come, earliest first; each is told once. Whether the request with that id is
        still the one that was meant is for the caller to see."""
        ids: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            ids.append(heapq.heappop(self._heap)[1])
        return ids
