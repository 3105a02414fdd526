"""The last lines an engine process wrote, kept so that an error can say why. Knows no process."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

LogSink = Callable[[str], None]

_LINES = 200
_LONGEST = 2000
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# A line of llama.cpp's log: time, severity letter, then 'function: message', perhaps with padding and a part in front.
_ERROR = re.compile(r"^[\d.]+ E (?P<text>.*)$")
_FUNCTION = re.compile(r"^(?:[a-z]+ +)?[\w()~<>]+: (?=\S)")


class LogTail:
    """A ring of the last 200 lines; each line also goes to `sink` as it comes."""

    def __init__(self, sink: LogSink | None = None) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._sink = sink

    def add(self, line: bytes) -> None:
        """Keep one line, without its newline."""
        text = _ANSI.sub("", line.decode("utf-8", "replace")).rstrip()[:_LONGEST]
        if not text:
            return
        self._lines.append(text)
        if self._sink is not None:
            self._sink(text)

    def lines(self) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(self._lines)

    def clear(self) -> None:
        """Forget all lines: a new process begins."""
        self._lines.clear()

    def reason(self) -> str:
        """What went wrong, in the engine's own words; '' when the log does not say. The first error is the cause,
        later ones are how it travelled up."""
        for line in self._lines:
            if match := _ERROR.match(line):
                return _FUNCTION.sub("", match["text"]).rstrip(". ")
        return self._lines[-1].rstrip(". ") if self._lines else ""
