"""Reads a call written as one JSON object. Knows neither the tools nor the text around."""

from __future__ import annotations

from enum import Enum

import msgspec

from dragoman.output.families.family import JsonCalls
from dragoman.output.json_value import BLANK, JsonValue, ReadStatus

_ENVELOPE = frozenset({"id", "type", "index", "tool_call_id", "function", "description"})


class _Place(Enum):
    START = "before the object"
    KEY = "before a key"
    COLON = "before a colon"
    VALUE = "before a value"
    INSIDE = "inside a key or value"
    NEXT = "after a value"


class _Role(Enum):
    KEY = "key"
    NAME = "name"
    OBJECT = "arguments as an object"
    ENCODED = "arguments as a string or null"
    OTHER = "other"


class JsonCallReader:
    """Reads a call written as a JSON object.

    Arguments written as a JSON string are decoded first (so they arrive in one piece); null, '' or no arguments at
    all mean {}. The object's own closing brace may be missing before one of `closers`. With `bare` an object whose
    first key no call has is BROKEN at once.
    """

    mendable = True

    def __init__(self, calls: JsonCalls, closers: tuple[str, ...], *, bare: bool = False) -> None:
        self.name: str | None = None
        self.ready = False
        self.status = ReadStatus.READING
        self.repairs: list[str] = []
        self.value_at = 0
        self._has_arguments = False
        self._calls = calls
        self._closers = closers
        self._bare = bare
        self._place = _Place.START
        self._role = _Role.KEY
        self._key = ""
        self._value = JsonValue()
        self._arguments: list[str] = []

    @property
    def complete(self) -> bool:
        """See CallReader."""
        return self.name is not None and self._has_arguments

    def feed(self, text: str, start: int) -> int:
        """See CallReader."""
        at, size = start, len(text)
        while at < size and self.status is ReadStatus.READING:
            before = (at, self._place)
            at = self._inside(text, at) if self._place is _Place.INSIDE else self._between(text, at)
            if (at, self._place) == before:
                break
        return at

    def take(self) -> str:
        """See CallReader."""
        text = "".join(self._arguments)
        self._arguments.clear()
        return text

    def _between(self, text: str, at: int) -> int:
        mark = text[at]
        if mark in BLANK:
            return at + 1
        if self._place is _Place.VALUE:
            return self._open_value(mark, at)
        if self._place is _Place.NEXT:
            return self._next(text, at)
        if self._place is _Place.KEY and mark == '"':
            return self._open(_Role.KEY, at)
        if self._place is _Place.KEY and mark == "}":
            return self._end_object(at, 1)
        if self._place is _Place.START and mark == "{":
            return self._move(_Place.KEY, at + 1)
        if self._place is _Place.COLON and mark == ":":
            return self._move(_Place.VALUE, at + 1)
        return self._break(at)

    def _next(self, text: str, at: int) -> int:
        if text[at] == ",":
            return self._move(_Place.KEY, at + 1)
        if text[at] == "}":
            return self._end_object(at, 1)
        if any(text.startswith(closer, at) for closer in self._closers):
            self._repair("close")
            return self._end_object(at, 0)
        return at if any(closer.startswith(text[at:]) for closer in self._closers) else self._break(at)

    def _open_value(self, mark: str, at: int) -> int:
        if self._key in self._calls.name_keys and self.name is None:
            return self._open(_Role.NAME, at) if mark == '"' else self._break(at)
        if self._key not in self._calls.argument_keys or self.ready:
            return self._open(_Role.OTHER, at)
        if mark == "{":
            self.ready = True
            return self._open(_Role.OBJECT, at)
        return self._open(_Role.ENCODED, at) if mark in '"nN' else self._break(at)

    def _open(self, role: _Role, at: int) -> int:
        self._role = role
        self._value = JsonValue()
        return self._move(_Place.INSIDE, at)

    def _inside(self, text: str, at: int) -> int:
        value = self._value
        at = value.feed(text, at)
        if self._role is _Role.OBJECT:
            self._arguments.append(value.take())
        elif self._role is _Role.OTHER:
            value.take()
        for rung in value.repairs:
            self._repair(rung)
        if value.status is ReadStatus.BROKEN:
            return self._break(at)
        if value.status is ReadStatus.DONE and not self._end_value():
            return self._break(at)
        return at

    def _end_value(self) -> bool:
        self._place = _Place.COLON if self._role is _Role.KEY else _Place.NEXT
        if self._role is _Role.OBJECT:
            self._has_arguments = True
        if self._role in (_Role.OBJECT, _Role.OTHER):
            return True
        text = self._value.take()
        if self._role is _Role.ENCODED:
            return self._encoded(text)
        word = _decode(text)
        if word is not None and self._role is _Role.KEY:
            return self._end_key(word)
        if word is not None:
            self.name = word
        return word is not None

    def _end_key(self, key: str) -> bool:
        self._key = key
        known = self._calls.name_keys + self._calls.argument_keys
        if self._bare and key not in known and key not in _ENVELOPE:
            self.mendable = False
            return False
        return True

    def _encoded(self, text: str) -> bool:
        arguments = "" if text == "null" else _decode(text)
        if arguments is None:
            return False
        inner = JsonValue()
        source = arguments.strip(BLANK) or "{}"
        if source[0] != "{" or inner.feed(source, 0) != len(source) or inner.status is not ReadStatus.DONE:
            return False
        self._arguments.append(inner.take())
        self.ready = self._has_arguments = True
        return True

    def flush(self, rest: str) -> None:
        """See CallReader: what is missing here is for the mender to find."""

    def _repair(self, rung: str) -> None:
        if rung not in self.repairs:
            self.repairs.append(rung)

    def _end_object(self, at: int, width: int) -> int:
        if self.name is None:
            return self._break(at)
        if not self.ready:
            self._arguments.append("{}")
            self.ready = self._has_arguments = True
        self.status = ReadStatus.DONE
        return at + width

    def _move(self, place: _Place, at: int) -> int:
        self._place = place
        return at

    def _break(self, at: int) -> int:
        self.status = ReadStatus.BROKEN
        return at


def _decode(text: str) -> str | None:
    """A JSON string's content; None when it holds half a surrogate pair, which no UTF-8 text can carry."""
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return None
