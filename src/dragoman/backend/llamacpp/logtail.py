"""The last lines an engine process wrote, kept so that an error can say why. Knows no process."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Sequence

LogSink = Callable[[str], None]

_LINES = 200
_LONGEST = 2000
_LAST_SECONDS = 5.0
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# A line of llama.cpp's log: time, severity letter, then 'function: message', perhaps with padding and a part in front.
_ERROR = re.compile(r"^[\d.]+ E (?P<text>.*)$")
_HARMLESS = re.compile(r"^[\d.]+ [WID] ")
_FUNCTION = re.compile(r"^(?:[a-z]+ +)?[\w()~<>]+: (?=\S)")

# What llama.cpp and its backends write without a severity before they abort.
_BROKEN = re.compile(r"GGML_ASSERT|GGML_ABORT|terminate called|what\(\):|\berror\b|out of memory", re.IGNORECASE)


class LogTail:
    """A ring of the last 200 lines; each line also goes to `sink` as it comes. `clock` tells seconds."""

    def __init__(self, sink: LogSink | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=_LINES)
        self._sink = sink
        self._clock = clock
        self._begun = -math.inf

    def add(self, line: bytes) -> None:
        """Keep one line, without its newline."""
        text = _ANSI.sub("", line.decode("utf-8", "replace")).rstrip()[:_LONGEST]
        if not text:
            return
        self._lines.append((self._clock(), text))
        if self._sink is not None:
            self._sink(text)

    def lines(self) -> tuple[str, ...]:
        """Oldest first; those of earlier processes, too."""
        return tuple(text for _, text in self._lines)

    def begin(self) -> None:
        """A new process begins: what is there by now explains nothing of it."""
        self._begun = self._clock()

    def reason(self) -> str:
        """What went wrong with this process, in the engine's own words; '' when the log does not say. The first error
        is the cause, later ones are how it travelled up."""
        return _reason([text for time_, text in self._lines if time_ >= self._begun])

    def last_words(self) -> str:
        """The same, of the last seconds only: what a process that ran well said when it ended."""
        since = max(self._begun, self._clock() - _LAST_SECONDS)
        return _reason([text for time_, text in self._lines if time_ >= since])


def _reason(lines: Sequence[str]) -> str:
    for line in lines:
        if match := _ERROR.match(line):
            return _FUNCTION.sub("", match["text"]).rstrip(". ")
    worst = next((line for line in lines if _BROKEN.search(line)), None)
    plain = [line for line in lines if not _HARMLESS.match(line)]
    return (worst or (plain[-1] if plain else "")).rstrip(". ")
