"""Reads one value between tags and spells it as JSON: strings while they arrive, the rest when it is whole."""

from __future__ import annotations

from dragoman.output.families.family import TaggedCalls
from dragoman.output.json_value import BLANK
from dragoman.output.text_value import encode_text, escaped, is_plain_text

_SECTION, _SECTION_END = "<![CDATA[", "]]>"
_NULLS = ("null", "none", "nil")
_NO, _WAIT = -1, -2


class TaggedValue:
    """Reads up to the value's end; see TaggedCallReader for where that is. `more` are argument names that may follow.

    `done` tells that the end was read, `mended` that the closing tag was not there.
    """

    def __init__(
        self, calls: TaggedCalls, closers: tuple[str, ...], types: frozenset[str], more: tuple[str, ...]
    ) -> None:
        self.done = False
        self.mended = False
        self._calls = calls
        self._types = types
        self._plain = is_plain_text(types)
        self._nullable_text = types == frozenset({"string", "null"})
        self._followers = tuple(text for text in (calls.key_open, calls.close, *closers, calls.open) if text)
        self._after_close = tuple(text for text in (*closers, calls.open) if text)
        self._next_keys = tuple(f"{calls.key_open}{key}{end}" for key in more for end, _ in calls.key_closes)
        self._begun = False
        self._in_section = False
        self._last = ""
        self._held: list[str] = []
        self._opened = False
        self._out: list[str] = []

    def feed(self, text: str, start: int) -> int:
        """Read `text` from `start`; returns the index of the first character not read, which must be offered again."""
        at = start
        if not self._begun:
            at = self._begin(text, at)
        while self._begun and not self.done and at < len(text):
            after = self._section(text, at) if self._in_section else self._text(text, at)
            if after == at:
                break
            at = after
        return at

    def take(self) -> str:
        """JSON text since the last call."""
        text = "".join(self._out)
        self._out.clear()
        return text

    def flush(self, rest: str) -> None:
        """The answer ended in the value; `rest` was offered and not read. What may be a cut tag is dropped."""
        calls = self._calls
        rest = rest.removesuffix("\n") if calls.framed else rest
        tag = rest.rfind("<")
        marks = (calls.value_close, calls.close, _SECTION_END)
        if tag >= 0 and any(mark and (mark.startswith(rest[tag:]) or rest.startswith(mark, tag)) for mark in marks):
            rest = rest[:tag]
        self._end(rest)

    def _begin(self, text: str, at: int) -> int:
        rest = text[at : at + 2 + len(_SECTION)]
        if self._calls.cdata:
            inner = rest.lstrip(BLANK)
            if _SECTION.startswith(inner) and inner != _SECTION:
                return at
            if inner.startswith(_SECTION):
                self._begun = self._in_section = True
                return text.index(_SECTION, at) + len(_SECTION)
        if rest in ("", "\r") and self._calls.framed:
            return at
        self._begun = True
        lines = ("\r\n", "\n") if self._calls.framed else ()
        return at + next((len(line) for line in lines if rest.startswith(line)), 0)

    def _text(self, text: str, at: int) -> int:
        place = text.find("<", at)
        while place >= 0:
            end = self._end_at(text, place)
            if end == _WAIT:
                break
            if end != _NO:
                self._end(text[at : self._before(text, at, place)])
                return end
            place = text.find("<", place + 1)
        stop = self._before(text, at, len(text) if place < 0 else place)
        self._give(text[at:stop])
        return stop

    def _before(self, text: str, at: int, place: int) -> int:
        """Where the line break in front of `place`, which may belong to the tag, begins."""
        if not self._calls.framed or place == at:
            return place
        if text.startswith("\r\n", place - 2) and place - 2 >= at:
            return place - 2
        return place - 1 if text[place - 1] in "\r\n" and (text[place - 1] == "\n" or place == len(text)) else place

    def _end_at(self, text: str, place: int) -> int:
        """Whether the value ends at the tag at `place`: the index to read on from, _NO, or _WAIT for more text."""
        calls = self._calls
        close = calls.value_close
        if text.startswith(close, place):
            return self._followed(text, place + len(close), self._followers, place + len(close))
        waits = close.startswith(text[place:])
        if calls.close and text.startswith(calls.close, place):
            end = self._followed(text, place + len(calls.close), self._after_close, place)
            self.mended = self.mended or end >= 0
            return end
        waits = waits or (calls.close != "" and calls.close.startswith(text[place:]))
        if self._last_before(text, place) == "\n":
            if any(text.startswith(key, place) for key in self._next_keys):
                self.mended = True
                return place
            waits = waits or any(key.startswith(text[place:]) for key in self._next_keys)
        return _WAIT if waits else _NO

    def _last_before(self, text: str, place: int) -> str:
        return text[place - 1] if place else self._last

    def _followed(self, text: str, after: int, followers: tuple[str, ...], end: int) -> int:
        """`end` when, blanks aside, one of the followers stands at `after`."""
        while after < len(text) and text[after] in BLANK:
            after += 1
        if any(text.startswith(follower, after) for follower in followers):
            return end
        return _WAIT if any(follower.startswith(text[after:]) for follower in (*followers, " ")) else _NO

    def _section(self, text: str, at: int) -> int:
        """In a CDATA section: it ends where the value's closing tag follows, and goes on where another one begins."""
        place = text.find(_SECTION_END, at)
        if place < 0:
            held = next((size for size in (2, 1) if text.endswith(_SECTION_END[:size]) and len(text) - size >= at), 0)
            self._give(text[at : len(text) - held])
            return len(text) - held
        after = place + len(_SECTION_END)
        if text.startswith(_SECTION, after):
            self._give(text[at:place])
            return after + len(_SECTION)
        end = self._followed(text, after, (self._calls.value_close,), after)
        if end >= 0:
            self._end(text[at:place])
            return text.index(self._calls.value_close, after) + len(self._calls.value_close)
        if end == _WAIT or _SECTION.startswith(text[after:]):
            self._give(text[at:place])
            return place
        self._give(text[at : place + 1])
        return place + 1

    def _give(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        if self._plain and not self._held:
            self._show(text)
            return
        self._held.append(text)
        if self._nullable_text:
            word = "".join(self._held).strip(BLANK).lower()
            if not any(null.startswith(word) for null in _NULLS):
                self._plain = True
                self._show("".join(self._held))
                self._held.clear()

    def _show(self, text: str) -> None:
        self._out.append(escaped(text) if self._opened else f'"{escaped(text)}')
        self._opened = True

    def _end(self, text: str) -> None:
        self._give(text)
        if self._opened:
            self._out.append('"')
        else:
            self._out.append(encode_text("".join(self._held), self._types))
        self.done = True
