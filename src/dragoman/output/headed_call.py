"""Reads a call whose name stands in a head, with the arguments as one value behind it. Knows no text around it."""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.families.family import HeadedCalls
from dragoman.output.json_value import JsonValue, ReadStatus
from dragoman.output.loose_value import LooseValue
from dragoman.output.value_syntax import PYTHON_VALUE, quoted_syntax

_MAX_HEAD = 512


class HeadedCallReader:
    """Reads the head up to the value's first character, then the value.

    A head that is complete and is followed by one of `closers` is a call without arguments.
    """

    def __init__(self, calls: HeadedCalls, closers: tuple[str, ...], types_of: Callable[[str], ArgumentTypes]) -> None:
        self.name: str | None = None
        self.ready = False
        self.status = ReadStatus.READING
        self.repairs: list[str] = []
        self.mendable = False
        self.value_at = 0
        self._calls = calls
        self._closers = closers
        self._types_of = types_of
        self._head = re.compile(calls.head)
        self._letters = re.compile(f"{calls.letters}*")
        self._value: JsonValue | LooseValue | None = None
        self._taken: list[str] = []
        self._whole = False

    @property
    def complete(self) -> bool:
        """See CallReader."""
        return self._whole

    def feed(self, text: str, start: int) -> int:
        """See CallReader."""
        at = start
        if self._value is None and self.status is ReadStatus.READING:
            at = self._read_head(text, at)
        if self._value is not None and self.status is ReadStatus.READING:
            at = self._read_value(self._value, text, at)
        return at

    def take(self) -> str:
        """See CallReader."""
        text = "".join(self._taken)
        self._taken.clear()
        return text

    def flush(self, rest: str) -> None:
        """See CallReader."""
        value = self._value
        if isinstance(value, LooseValue):
            value.feed(f"{rest}\n", 0, final=True)
            if value.status is not ReadStatus.BROKEN and value.close():
                self._end(value)

    def _read_head(self, text: str, at: int) -> int:
        # The head is short, so it is looked at as a whole each time; nothing of it is read before it is complete.
        opens = text.find(self._calls.opens, at)
        stops = [place for closer in self._closers if (place := text.find(closer, at)) >= 0]
        stop = min(stops, default=-1)
        end = opens if stop < 0 or 0 <= opens < stop else stop
        if end < 0:
            letters = self._letters.match(text, at)
            end_of_letters = letters.end() if letters else at
            hopeless = end_of_letters < len(text) and not self._partial(text, end_of_letters)
            return self._break(at) if hopeless or len(text) - at > _MAX_HEAD else at
        head = self._head.fullmatch(text, at, end)
        if head is None:
            return self._break(at)
        self.name = head["name"]
        self.ready = True
        if end != opens:
            self._taken.append("{}")
            self._whole = True
            self.status = ReadStatus.DONE
            return end
        self.value_at = end - at
        self._value = self._open_value()
        return end

    def _partial(self, text: str, at: int) -> bool:
        """Whether a marker that ends the head, cut in two, may begin at `at`."""
        return any(closer.startswith(text[at:]) for closer in self._closers)

    def _open_value(self) -> JsonValue | LooseValue:
        if self._calls.kind == "json":
            self.mendable = True
            return JsonValue()
        types = self._types_of(self.name or "")
        if self._calls.kind == "python":
            return LooseValue(PYTHON_VALUE, types, call=True)
        return LooseValue(quoted_syntax(self._calls.quote), types)

    def _read_value(self, value: JsonValue | LooseValue, text: str, at: int) -> int:
        at = value.feed(text, at)
        self._taken.append(value.take())
        if value.status is ReadStatus.BROKEN and isinstance(value, LooseValue):
            return self._broken(value, text, at)
        if value.status is ReadStatus.READING:
            return at
        if value.status is ReadStatus.BROKEN:
            return self._break(at)
        self._end(value)
        return at

    def _broken(self, value: LooseValue, text: str, at: int) -> int:
        """The value stops fitting: before the end of the block, only its closing marks are missing."""
        if any(text.startswith(closer, at) for closer in self._closers) and value.close():
            self._end(value)
            return at
        waits = any(closer.startswith(text[at:]) for closer in self._closers)
        return at if waits else self._break(at)

    def _end(self, value: JsonValue | LooseValue) -> None:
        self._taken.append(value.take())
        self.repairs += [rung for rung in value.repairs if rung not in self.repairs]
        self._whole = True
        self.status = ReadStatus.DONE

    def _break(self, at: int) -> int:
        self.status = ReadStatus.BROKEN
        return at
