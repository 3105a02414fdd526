"""One call in a block of tool markup, from the marker that announces it to its end. Knows no text around it."""

from __future__ import annotations

from enum import Enum

from dragoman.output.calls import CallReader
from dragoman.output.json_value import ReadStatus
from dragoman.output.segments import CUT, END, Segment


class Fate(Enum):
    """`OPEN` not known yet; `CALL` announced; `TEXT` names a tool nobody declared."""

    OPEN = "open"
    CALL = "call"
    TEXT = "text"


class CallBlock:
    """Turns what the reader makes of the text into segments, and keeps the text until it is certain to be a call.

    `head` is the text before the call's own (whitespace and opening marker), `at` its place in the stream.
    """

    def __init__(self, head: str, at: int, reader: CallReader, names: frozenset[str]) -> None:
        self.fate = Fate.OPEN
        self._head = head
        self._at = at
        self._reader = reader
        self._names = names
        self._body: list[str] = []

    @property
    def reading(self) -> bool:
        """Whether more may come."""
        return self._reader.status is ReadStatus.READING

    @property
    def complete(self) -> bool:
        """Whether name and arguments are whole."""
        return self._reader.complete

    @property
    def head(self) -> Segment:
        """The head as text."""
        return Segment("text", self._head, self._at)

    @property
    def body(self) -> str:
        """What was read while OPEN."""
        return "".join(self._body)

    def feed(self, text: str, out: list[Segment]) -> int:
        """Read `text`; returns how many characters of it were read, the rest must be offered again."""
        used = self._reader.feed(text, 0)
        if self.fate is Fate.TEXT:
            self._relay(text[:used], out)
            return used
        if self.fate is Fate.OPEN:
            self._body.append(text[:used])
            self._decide(out)
        if self.fate is Fate.CALL:
            self._arguments(out)
            if not self.reading:
                out.append(END if self.complete else CUT)
        return used

    def flush(self, rest: str, out: list[Segment], *, cut: bool) -> None:
        """The answer ends here; `rest` was offered and not read."""
        if self.fate is Fate.TEXT:
            self._relay(rest, out)
        elif self.fate is Fate.CALL:
            out.append(END if self.complete else CUT)
        elif not cut:
            out.append(Segment("text", self._head + self.body + rest, self._at))

    def _decide(self, out: list[Segment]) -> None:
        name = self._reader.name
        if name is None:
            return
        if name not in self._names:
            self.fate = Fate.TEXT
            self._relay(self._head + self.body, out)
        elif self._reader.ready:
            self.fate = Fate.CALL
            out.append(Segment("call", name))

    def _arguments(self, out: list[Segment]) -> None:
        fragment = self._reader.take()
        if fragment:
            out.append(Segment("arguments", fragment))

    def _relay(self, text: str, out: list[Segment]) -> None:
        self._reader.take()
        if text:
            out.append(Segment("text", text, self._at))
            self._at += len(text)
