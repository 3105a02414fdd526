"""One call in a block of tool markup, from the marker that announces it to its end. Knows no text around it."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from msgspec import Struct

from dragoman.output.calls import CallReader
from dragoman.output.families.family import JsonCalls
from dragoman.output.json_call import JsonCallReader
from dragoman.output.json_value import ReadStatus
from dragoman.output.mend import Mended, Mender, Verdict
from dragoman.output.segments import CUT, END, Segment


class Fate(Enum):
    """`OPEN` not known yet; `CALL` announced; `TEXT` names a tool nobody declared."""

    OPEN = "open"
    CALL = "call"
    TEXT = "text"


class BlockContext(Struct, frozen=True):
    """What the block's calls have in common: declared names, literals that end the block or stand behind a call,
    those of them that mark (rather than a bracket or a fence), and those that begin a block."""

    names: Collection[str]
    closers: tuple[str, ...]
    marks: tuple[str, ...]
    openers: tuple[str, ...]
    json_calls: JsonCalls | None = None


class CallBlock:
    """Turns what the reader makes of the text into segments, and keeps the text until it is certain to be a call.

    `head` is the text before the call's own (whitespace and markers), `at` its place in the stream. After the end
    `unread` is text that was read and does not belong to the call.

    Arguments are given out as they come, except behind a closing marker that seems to stand inside a string: until the
    call is complete, it may as well be the end of a call whose string was never closed.
    """

    def __init__(self, head: str, at: int, reader: CallReader, context: BlockContext) -> None:
        self.fate = Fate.OPEN
        self.reading = True
        self.unread = ""
        self.repairs: tuple[str, ...] = ()
        self._head = head
        self._at = at
        self._reader = reader
        self._context = context
        self._text: list[str] = []
        self._used = 0
        self._given = ""
        self._pending = ""
        self._complete = False
        self._mender: Mender | None = None

    @property
    def complete(self) -> bool:
        """Whether a call came out, whole."""
        return self._complete

    @property
    def head(self) -> Segment:
        """The head as text."""
        return Segment("text", self._head, self._at)

    def feed(self, text: str, out: list[Segment]) -> int:
        """Read `text`; returns how many characters of it were read, the rest must be offered again."""
        if self._mender is not None:
            self._text.append(text)
            self._mend(self._mender, out, final=False)
            return len(text)
        used = self._reader.feed(text, 0)
        if self.fate is Fate.TEXT:
            self._relay(text[:used], out)
            self.reading = self._reader.status is ReadStatus.READING
            return used
        self._text.append(text[:used])
        self._used += used
        if self.fate is Fate.OPEN:
            self._decide(out)
        if self.fate is Fate.CALL:
            self._arguments(out)
        match self._reader.status:
            case ReadStatus.READING:
                return used
            case ReadStatus.DONE:
                self._done(out)
                return used
            case ReadStatus.BROKEN:
                return self._broken(text, used, out)

    def flush(self, rest: str, out: list[Segment], *, cut: bool) -> None:
        """The answer ends here; `rest` was offered and not read. `cut` when a limit ended it."""
        self.reading = False
        if self.fate is Fate.TEXT:
            self._relay(rest, out)
        elif cut:
            self._flush_cut(rest, out)
        else:
            self._flush_whole(rest, out)

    def _flush_cut(self, rest: str, out: list[Segment]) -> None:
        if self.fate is Fate.CALL:
            if self._reader.complete:
                self._done(out)
            else:
                # What is pending may be half a marker.
                out.append(CUT)
        elif self._mender is not None:
            self._as_text(rest, out)

    def _flush_whole(self, rest: str, out: list[Segment]) -> None:
        if self._mender is None:
            self._reader.flush(rest)
            if self.fate is Fate.OPEN and self._reader.complete:
                self._decide(out)
            if self.fate is Fate.CALL:
                self._arguments(out)
            if self._reader.complete and self.fate is not Fate.OPEN:
                self._done(out)
                return
            if self.fate is Fate.CALL and self._reader.mendable:
                self._mender = self._new_mender(broken=0)
        if self._mender is not None:
            self._text.append(rest)
            self._mend(self._mender, out, final=True)
            rest = ""
            if self._complete or self.fate is Fate.CALL:
                return
        if self.fate is Fate.CALL:
            self._give(self._pending, out)
            out.append(CUT)
        else:
            self._as_text(rest, out)

    def _as_text(self, rest: str, out: list[Segment]) -> None:
        out.append(Segment("text", self._head + "".join(self._text) + rest, self._at))
        self.unread = ""
        self.repairs = ("raw",)

    def _decide(self, out: list[Segment]) -> None:
        name = self._reader.name
        if name is None:
            return
        if name not in self._context.names:
            self.fate = Fate.TEXT
            self.repairs = ("raw",)
            self._relay(self._head + "".join(self._text), out)
            self.reading = self._reader.status is ReadStatus.READING
        elif self._reader.ready:
            self.fate = Fate.CALL
            out.append(Segment("call", name))

    def _arguments(self, out: list[Segment]) -> None:
        text = self._pending + self._reader.take()
        held = 0 if self._reader.complete or not self._reader.mendable else _held_from(text, self._context.marks)
        self._pending = text[len(text) - held :]
        self._give(text[: len(text) - held], out)

    def _give(self, text: str, out: list[Segment]) -> None:
        if text:
            self._given += text
            out.append(Segment("arguments", text))

    def _done(self, out: list[Segment]) -> None:
        self.reading = False
        if self.fate is Fate.CALL:
            self._complete = True
            self.repairs = tuple(self._reader.repairs)
            out.append(END)

    def _broken(self, text: str, used: int, out: list[Segment]) -> int:
        if self.fate is Fate.TEXT or not self._reader.mendable:
            self._give_up(out)
            return used
        self._mender = self._new_mender(broken=self._used)
        self._text.append(text[used:])
        self._mend(self._mender, out, final=False)
        return len(text)

    def _new_mender(self, *, broken: int) -> Mender:
        whole = isinstance(self._reader, JsonCallReader)
        context = self._context
        return Mender(
            context.json_calls if whole else None,
            self._reader.name or "",
            context.names,
            start=self._reader.value_at,
            broken=broken,
            closers=context.closers,
            marks=context.marks,
            openers=context.openers,
        )

    def _mend(self, mender: Mender, out: list[Segment], *, final: bool) -> None:
        text = "".join(self._text)
        self._text = [text]
        verdict = mender.feed(text, final=final)
        if verdict is Verdict.WAITING:
            return
        found = mender.found
        if found is not None and self._agrees(found):
            self._finish_mended(found, text, out)
        else:
            self._give_up(out)

    def _agrees(self, found: Mended) -> bool:
        """Whether what was already given out is the beginning of it."""
        begun = self.fate is Fate.CALL
        return not begun or (found.name == self._reader.name and found.arguments.startswith(self._given))

    def _finish_mended(self, found: Mended, text: str, out: list[Segment]) -> None:
        if self.fate is Fate.OPEN:
            self.fate = Fate.CALL
            out.append(Segment("call", found.name))
        self._give(found.arguments[len(self._given) :], out)
        out.append(END)
        self._complete = True
        self.reading = False
        self.repairs = tuple(dict.fromkeys((*self._reader.repairs, *found.repairs)))
        self.unread = text[found.used :]

    def _give_up(self, out: list[Segment]) -> None:
        self.reading = False
        self.repairs = ("raw",)
        if self.fate is Fate.TEXT:
            return
        text = "".join(self._text)
        self.unread = text
        if self.fate is Fate.CALL:
            self._give(self._pending, out)
            out.append(CUT)
            self.unread = text[self._used :]

    def _relay(self, text: str, out: list[Segment]) -> None:
        self._reader.take()
        if text:
            out.append(Segment("text", text, self._at))
            self._at += len(text)


def _held_from(text: str, marks: tuple[str, ...]) -> int:
    """How much of the end of `text` waits: from the first mark on, or from where one may begin."""
    found = [place for mark in marks if (place := text.find(mark)) >= 0]
    if found:
        return len(text) - min(found)
    last = max((len(mark) for mark in marks), default=1) - 1
    tails = range(max(0, len(text) - last), len(text))
    return next((len(text) - at for at in tails if any(mark.startswith(text[at:]) for mark in marks)), 0)
