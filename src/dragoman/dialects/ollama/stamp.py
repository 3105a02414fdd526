"""RFC 3339 times with nanoseconds, as Ollama prints them. Reads no clock of its own accord."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Nanoseconds since the Unix epoch."""


class Stamp:
    """Prints the time of a clock; a second's text is made once."""

    def __init__(self, clock: Clock = time.time_ns) -> None:
        self._clock = clock
        self._second = -1
        self._text = b""

    def now(self) -> bytes:
        """For example 2026-11-29T08:52:19.385406455Z."""
        second, nanoseconds = divmod(self._clock(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = _seconds(second).encode()
        return b"%b.%09dZ" % (self._text, nanoseconds)


def stamp_of(second: int) -> str:
    """The time of a whole second."""
    return f"{_seconds(second)}Z"


def _seconds(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
