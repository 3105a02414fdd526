"""The repair of a call that strict reading gave up: fence, prose, quotes, literals, commas, missing ends, stray names.

Text is read once more, leniently, up to where the call ends; what comes out is JSON, and only when that is a call of a
declared tool is anything repaired. Knows no text around the call.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, cast

from msgspec import Struct

from dragoman.output.families.family import JsonCalls
from dragoman.output.json_call import JsonCallReader
from dragoman.output.json_value import BLANK, ReadStatus
from dragoman.output.loose_value import LooseValue
from dragoman.output.value_syntax import LENIENT_JSON

_MAX_PROSE = 256
_MAX_CALL = 65536
_ENVELOPES = ("function", "tool_call", "tool", "action")


class Verdict(Enum):
    """`WAITING` needs more text; `MENDED` found a call; `HOPELESS` there is none."""

    WAITING = "waiting"
    MENDED = "mended"
    HOPELESS = "hopeless"


class Mended(Struct, frozen=True):
    """A call as it was meant; `used` characters of its text are the call."""

    name: str
    arguments: str
    used: int
    repairs: tuple[str, ...]


class Mender:
    """Looks for the call in text that begins with it and grows.

    `calls` for a call that is one JSON object; None for arguments alone, which belong to `name`. `start` is where the
    JSON begins at the earliest, `broken` where strict reading gave up (0 when it did not), `closers` are what may stand
    behind the call, `marks` those of them that are markers, and `openers` begin a block; nothing that begins like any
    of them may stand in front of the JSON.
    """

    def __init__(
        self,
        calls: JsonCalls | None,
        name: str,
        names: Collection[str],
        *,
        start: int,
        broken: int,
        closers: tuple[str, ...],
        marks: tuple[str, ...],
        openers: tuple[str, ...],
    ) -> None:
        self.found: Mended | None = None
        self._calls = calls
        self._name = name
        self._names = names
        self._start = start
        self._broken_at = broken
        self._closers = closers
        self._marks = marks
        self._stoppers = frozenset(text[0] for text in (*closers, *openers) if len(text) > 1 and text[0] != "`")
        self._rungs: list[str] = []
        self._value: LooseValue | None = None
        self._at = 0

    def feed(self, text: str, *, final: bool) -> Verdict:
        """`text` is all there is so far; `final` when no more will come."""
        value = self._value
        if value is None:
            verdict = self._find_start(text, final)
            if verdict is not None:
                return verdict
            value = self._value = LooseValue(LENIENT_JSON)
            if any(text.find(mark, self._start, self._broken_at) >= 0 for mark in self._marks):
                # What strict reading took for part of a string was more likely the end of the call.
                return self._cut_short(None, text, self._broken_at)
        if value.status is ReadStatus.READING:
            self._at = value.feed(text, self._at, final=final)
        match value.status:
            case ReadStatus.DONE:
                return self._build(value, self._at)
            case ReadStatus.BROKEN:
                return self._broken(value, text, final)
            case ReadStatus.READING:
                if final:
                    return self._cut_short(value, text, len(text))
                return Verdict.WAITING if len(text) < _MAX_CALL else Verdict.HOPELESS

    def _find_start(self, text: str, final: bool) -> Verdict | None:
        """Past a fence or prose to the JSON's first brace; None once that is found."""
        place = text.find("{", self._start)
        before = text[self._start : place if place >= 0 else len(text)]
        too_far = len(before) > _MAX_PROSE or not self._stoppers.isdisjoint(before)
        if place < 0:
            return Verdict.HOPELESS if too_far or final or self._calls is None else Verdict.WAITING
        if too_far:
            return Verdict.HOPELESS
        if "```" in before:
            self._rungs.append("fence")
        prose = before.replace("```json", "").replace("```", "").strip(BLANK)
        if prose and prose not in ("tool_call", "tool_code", "["):
            self._rungs.append("prose")
        self._start = self._at = place
        return None

    def _broken(self, value: LooseValue, text: str, final: bool) -> Verdict:
        if any(text.startswith(closer, self._at) for closer in self._closers):
            return self._build(value, self._at) if value.close() else Verdict.HOPELESS
        if not final and any(closer.startswith(text[self._at :]) for closer in self._closers):
            return Verdict.WAITING
        return self._cut_short(None, text, self._at)

    def _cut_short(self, value: LooseValue | None, text: str, end: int) -> Verdict:
        """Something was never closed: the call ends with the first closer, though it seems to be in a string."""
        places = [place for mark in self._marks if (place := text.find(mark, self._start, end)) >= 0]
        if places:
            end = min(places)
            value = LooseValue(LENIENT_JSON)
            # Blanks in front of the closer belong to the markup.
            value.feed(text[: self._start + len(text[self._start : end].rstrip(BLANK))], self._start, final=True)
        if value is None or value.status is ReadStatus.BROKEN or not value.close():
            return Verdict.HOPELESS
        return self._build(value, end)

    def _build(self, value: LooseValue, used: int) -> Verdict:
        rungs = [*self._rungs, *value.repairs]
        found = self._call(value.take(), rungs)
        if found is None:
            return Verdict.HOPELESS
        self.found = Mended(*found, used, tuple(rungs))
        return Verdict.MENDED

    def _call(self, source: str, rungs: list[str]) -> tuple[str, str] | None:
        if self._calls is None:
            return self._name, source.strip(BLANK)
        reader = JsonCallReader(self._calls, ())
        reader.feed(source, 0)
        if reader.name is not None and reader.name in self._names and reader.complete:
            arguments = reader.take()
            guessed = "close" in rungs and not any(f'"{key}"' in source for key in self._calls.argument_keys)
            return None if guessed else (reader.name, arguments)
        found = _inner_call(json.loads(source), self._names, self._calls)
        if found is not None:
            rungs.append("name")
        return found


def _inner_call(value: Any, names: Collection[str], calls: JsonCalls) -> tuple[str, str] | None:
    """The call in an envelope, or with its name among its arguments."""
    if not isinstance(value, Mapping):
        return None
    outer = cast("Mapping[str, Any]", value)
    for key in (*_ENVELOPES, *calls.argument_keys):
        inner = outer.get(key)
        if not isinstance(inner, Mapping):
            continue
        call = cast("Mapping[str, Any]", inner)
        name = next((call[word] for word in calls.name_keys if word in call), None)
        if isinstance(name, str) and name in names:
            return name, _arguments(call, calls)
    return None


def _arguments(call: Mapping[str, Any], calls: JsonCalls) -> str:
    for key in calls.argument_keys:
        if isinstance(call.get(key), Mapping):
            return json.dumps(call[key], ensure_ascii=False)
    rest = {key: value for key, value in call.items() if key not in calls.name_keys}
    return json.dumps(rest, ensure_ascii=False)
