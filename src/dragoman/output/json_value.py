"""One JSON value read from text that arrives in pieces, checked and lightly repaired. Knows nothing of tool calls."""

from __future__ import annotations

import re
from enum import Enum

BLANK = " \t\r\n"
_COMMA = re.compile(r",[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_START = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_WORD = re.compile(r"[A-Za-z0-9+\-._]+")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
LITERALS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_MAX_WORD = 1024


class ReadStatus(Enum):
    """`READING` more may come; `DONE` complete; `BROKEN` the next character cannot follow."""

    READING = "reading"
    DONE = "done"
    BROKEN = "broken"


class _Want(Enum):
    VALUE = "value"
    VALUE_OR_END = "value or end"
    KEY = "key"
    KEY_OR_END = "key or end"
    COLON = "colon"
    NEXT = "next"


class JsonValue:
    """Gives out text that is at every moment the beginning of a valid JSON value, and at the end a valid one.

    Repaired on the way, because models write it and it is unambiguous: raw control characters in strings are
    escaped, unknown escapes keep their backslash (\\' becomes '), True, False and None are spelled as JSON spells
    them, a comma before a closing bracket is dropped. Everything else outside RFC 8259 is BROKEN. Words longer than
    1024 characters are BROKEN too. `repairs` names what was repaired.

    The quote that ends a string is given out with what follows it, so that where nothing fitting follows, the quote
    may still turn out to be part of the string.
    """

    def __init__(self) -> None:
        self.status = ReadStatus.READING
        self.repairs: list[str] = []
        self._certain: int | None = None
        self._closers: list[str] = []
        self._want = _Want.VALUE
        self._in_string = False
        self._out: list[str] = []

    def feed(self, text: str, start: int) -> int:
        """Read `text` from `start`; returns the index of the first character not read.

        While READING, what is left unread (part of an escape or a word) must be offered again with more behind it.
        """
        at, size = start, len(text)
        while at < size and self.status is ReadStatus.READING:
            after = self._string(text, at) if self._in_string else self._structure(text, at)
            if after == at:
                break
            at = after
        return at

    def take(self) -> str:
        """The text given out since the last call."""
        certain = len(self._out) if self._certain is None else self._certain
        text = "".join(self._out[:certain])
        del self._out[:certain]
        if self._certain is not None:
            self._certain = 0
        return text

    def _repair(self, rung: str) -> None:
        if rung not in self.repairs:
            self.repairs.append(rung)

    def _string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain:
            self._out.append(plain.group())
            return plain.end()
        if text[at] == '"':
            self._certain = len(self._out)
            self._out.append('"')
            self._in_string = False
            self._want = _Want.COLON if self._want in (_Want.KEY, _Want.KEY_OR_END) else self._after_value()
            return at + 1
        if text[at] == "\\":
            return self._escape(text, at)
        self._out.append(CONTROLS.get(text[at]) or f"\\u{ord(text[at]):04x}")
        self._repair("escapes")
        return at + 1

    def _escape(self, text: str, at: int) -> int:
        known = _ESCAPE.match(text, at)
        if known:
            self._out.append(known.group())
            return known.end()
        if _ESCAPE_START.match(text, at):
            return at
        self._repair("escapes")
        if text[at + 1] == "'":
            self._out.append("'")
            return at + 2
        self._out.append("\\\\")
        return at + 1

    def _structure(self, text: str, at: int) -> int:
        mark = text[at]
        if mark in BLANK:
            self._out.append(mark)
            return at + 1
        if self._want is _Want.NEXT:
            return self._next(text, at, mark)
        if self._want is _Want.COLON:
            return self._accept(mark, at, _Want.VALUE) if mark == ":" else self._break(at)
        if mark in "}]":
            ends = self._want in (_Want.VALUE_OR_END, _Want.KEY_OR_END)
            return self._close(mark, at) if ends else self._break(at)
        if mark == '"':
            self._in_string = True
            return self._accept(mark, at, self._want)
        if self._want in (_Want.KEY, _Want.KEY_OR_END):
            return self._break(at)
        return self._value(text, at, mark)

    def _value(self, text: str, at: int, mark: str) -> int:
        if mark == "{":
            self._closers.append("}")
            return self._accept(mark, at, _Want.KEY_OR_END)
        if mark == "[":
            self._closers.append("]")
            return self._accept(mark, at, _Want.VALUE_OR_END)
        word = _WORD.match(text, at)
        if not word or word.end() - at > _MAX_WORD:
            return self._break(at)
        if word.end() == len(text):
            return at
        spelled = LITERALS.get(word.group()) or (word.group() if NUMBER.match(word.group()) else None)
        if spelled is None:
            return self._break(at)
        if spelled != word.group():
            self._repair("literals")
        self._out.append(spelled)
        self._want = self._after_value()
        return word.end()

    def _next(self, text: str, at: int, mark: str) -> int:
        if mark in "}]":
            return self._close(mark, at)
        comma = _COMMA.match(text, at)
        if not comma:
            return self._break(at)
        if comma.end() == len(text):
            return at
        self._certain = None
        if text[comma.end()] != self._closers[-1]:
            self._out.append(comma.group())
            self._want = _Want.KEY if self._closers[-1] == "}" else _Want.VALUE
        else:
            self._repair("commas")
        return comma.end()

    def _close(self, mark: str, at: int) -> int:
        if not self._closers or self._closers[-1] != mark:
            return self._break(at)
        self._closers.pop()
        self._certain = None
        self._out.append(mark)
        self._want = self._after_value()
        return at + 1

    def _after_value(self) -> _Want:
        if not self._closers:
            self._certain = None
            self.status = ReadStatus.DONE
        return _Want.NEXT

    def _accept(self, mark: str, at: int, want: _Want) -> int:
        self._certain = None
        self._out.append(mark)
        self._want = want
        return at + 1

    def _break(self, at: int) -> int:
        self.status = ReadStatus.BROKEN
        return at
