"""Reads a call whose arguments stand between tags, each value typed by the declared schema. Knows no text around."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.families.family import TaggedCalls, ValueType
from dragoman.output.json_value import BLANK, ReadStatus
from dragoman.output.tagged_value import TaggedValue
from dragoman.output.text_value import escaped

_MAX_NAME = 256
_NAME = re.compile(r"[\w.\-/:]+")


class _Place(Enum):
    OPEN = "before the head"
    NAME = "in the name"
    BETWEEN = "between arguments"
    KEY = "in a key"
    VALUE_OPEN = "before a value's tag"
    VALUE = "in a value"


class TaggedCallReader:
    """Reads a call by its tags. An argument that comes twice counts once, the first time.

    A value ends at its closing tag where something follows that may follow there, so that the same tag inside a value
    is part of it; what truly looks like the end is the end. Closing tags that are missing before the next argument or
    before the end of the call are put there.
    """

    mendable = False
    value_at = 0

    def __init__(self, calls: TaggedCalls, closers: tuple[str, ...], types_of: Callable[[str], ArgumentTypes]) -> None:
        self.name: str | None = None
        self.ready = False
        self.status = ReadStatus.READING
        self.repairs: list[str] = []
        self._calls = calls
        self._closers = closers
        self._types_of = types_of
        self._types = ArgumentTypes(None)
        self._place = _Place.OPEN
        self._value: TaggedValue | None = None
        self._key = ""
        self._value_type: ValueType = "schema"
        self._seen: list[str] = []
        self._out: list[str] = []

    @property
    def complete(self) -> bool:
        """See CallReader."""
        return self.status is ReadStatus.DONE

    def feed(self, text: str, start: int) -> int:
        """See CallReader."""
        at, size = start, len(text)
        while at < size and self.status is ReadStatus.READING:
            before = (at, self._place)
            at = self._step(text, at)
            if (at, self._place) == before:
                break
        return at

    def take(self) -> str:
        """See CallReader."""
        text = "".join(self._out)
        self._out.clear()
        return text

    def flush(self, rest: str) -> None:
        """See CallReader."""
        if self._place is _Place.VALUE and self._value is not None:
            self._value.flush(rest)
            self._end_value()
        elif self._place is not _Place.BETWEEN or not self.ready:
            return
        self._repair("close")
        self._end(0)

    def _step(self, text: str, at: int) -> int:
        match self._place:
            case _Place.OPEN:
                return self._open(text, at)
            case _Place.NAME:
                return self._read_name(text, at)
            case _Place.BETWEEN:
                return self._between(text, at)
            case _Place.KEY:
                return self._read_key(text, at)
            case _Place.VALUE_OPEN:
                return self._open_value_tag(text, at)
            case _Place.VALUE:
                return self._read_value(text, at)

    def _open(self, text: str, at: int) -> int:
        if text[at] in BLANK:
            return at + 1
        literal = self._calls.open
        if text.startswith(literal, at):
            self._place = _Place.NAME
            return at + len(literal)
        return at if literal.startswith(text[at:]) else self._break(at)

    def _read_name(self, text: str, at: int) -> int:
        ends = (self._calls.name_close,) if self._calls.name_close else ("\n", self._calls.key_open, *self._closers)
        end, literal = first_of(text, at, ends)
        if end < 0:
            word = _NAME.match(text, at)
            rest = text[word.end() :] if word else text[at:]
            waits = not rest.strip(" \t") or any(mark.startswith(rest.lstrip(" \t")) for mark in ends)
            return at if waits and len(text) - at <= _MAX_NAME else self._break(at)
        name = text[at:end].strip(BLANK)
        if not _NAME.fullmatch(name):
            return self._break(at)
        self.name = name
        self._types = self._types_of(name)
        self._place = _Place.BETWEEN
        return end + len(literal) if self._calls.name_close else end

    def _between(self, text: str, at: int) -> int:
        calls = self._calls
        if text[at] in BLANK:
            return at + 1
        if text.startswith(calls.key_open, at):
            self.ready = True
            self._place = _Place.KEY
            return at + len(calls.key_open)
        if calls.close and text.startswith(calls.close, at):
            return self._end(at + len(calls.close))
        next_call = (calls.open,) if calls.open and self.ready else ()
        if any(text.startswith(literal, at) for literal in (*self._closers, *next_call)):
            if calls.close:
                self._repair("close")
            return self._end(at)
        literals = (calls.key_open, calls.close, *self._closers, *next_call)
        return at if any(literal.startswith(text[at:]) for literal in literals if literal) else self._break(at)

    def _read_key(self, text: str, at: int) -> int:
        closes = tuple(close for close, _ in self._calls.key_closes)
        end, literal = first_of(text, at, closes)
        if end < 0:
            return at if len(text) - at <= _MAX_NAME else self._break(at)
        key = text[at:end].strip(BLANK)
        if not key or "\n" in key:
            return self._break(at)
        self._key = key
        self._value_type = dict(self._calls.key_closes)[literal]
        self._place = _Place.VALUE_OPEN if self._calls.value_open else self._begin_value()
        return end + len(literal)

    def _open_value_tag(self, text: str, at: int) -> int:
        if text[at] in BLANK:
            return at + 1
        literal = self._calls.value_open
        if text.startswith(literal, at):
            self._place = self._begin_value()
            return at + len(literal)
        return at if literal.startswith(text[at:]) else self._break(at)

    def _begin_value(self) -> _Place:
        types = self._types.of(self._key)
        if self._value_type != "schema":
            types = frozenset({"string"}) if self._value_type == "string" else types - {"string"}
            types = types or frozenset({"null", "boolean", "integer", "number", "array", "object"})
        more = tuple(key for key in self._types.keys if key not in self._seen and key != self._key)
        self._value = TaggedValue(self._calls, self._closers, types, more)
        if self._key in self._seen:
            self._repair("names")
        else:
            self._out.append(f'{", " if self._seen else "{"}"{escaped(self._key)}": ')
        return _Place.VALUE

    def _read_value(self, text: str, at: int) -> int:
        value = self._value
        if value is None:
            return self._break(at)
        at = value.feed(text, at)
        if self._key in self._seen:
            value.take()
        else:
            self._out.append(value.take())
        if value.done:
            self._end_value()
        return at

    def _end_value(self) -> None:
        value = self._value
        if value is None:
            return
        if self._key not in self._seen:
            self._out.append(value.take())
            self._seen.append(self._key)
        if value.mended:
            self._repair("close")
        self._value = None
        self._place = _Place.BETWEEN

    def _end(self, at: int) -> int:
        self._out.append("}" if self._seen else "{}")
        self.ready = True
        self.status = ReadStatus.DONE
        return at

    def _repair(self, rung: str) -> None:
        if rung not in self.repairs:
            self.repairs.append(rung)

    def _break(self, at: int) -> int:
        self.status = ReadStatus.BROKEN
        return at


def first_of(text: str, start: int, literals: tuple[str, ...]) -> tuple[int, str]:
    """The place of the first of the literals in `text` from `start` on, and which one it is; (-1, '') for none."""
    found = [(place, literal) for literal in literals if (place := text.find(literal, start)) >= 0]
    return min(found, default=(-1, ""))
