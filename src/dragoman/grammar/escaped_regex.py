"""A regex of texts made rules for the same texts as JSON strings have them. Knows no grammar around it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

_ESCAPED = [chr(code) for code in range(0x20)] + ['"', "\\"]
_OTHERS = r'[^"\\\x00-\x1f]'
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_CODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xuU]\{([0-9a-fA-F]{1,6})\})")
_GROUP = re.compile(r"\(\?(?:P?<\w+>|([a-zA-Z]*)(?:-([a-zA-Z]+))?(:|\)))")
_CLASS = re.compile(r"\[\^?\]?(?:[^\[\]\\]|\\.)*\]", re.DOTALL)
_TIMES = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})(\??)")
_SET_WORDS = ("&&", "--", "~~", "\\p", "\\P", "\\b", "\\B")


class Beyond(Exception):
    """Something that has no form between the quotes of a string."""


def escaped_regex(source: str, flags: str) -> str:
    """An expression of Lark rules. Raises Beyond."""
    if set(flags) - set("isu"):
        raise Beyond
    tree = _Reader(source, any_case="i" in flags, dot_all="s" in flags).read()
    return f"({tree.written(last=True)})"


@dataclass
class _Text:
    """Characters as they are."""

    text: str
    any_case: bool

    def written(self, *, last: bool) -> str:
        spelled = json.dumps(self.text, ensure_ascii=False)[1:-1]
        if self.any_case and spelled != self.text:
            raise Beyond
        return json.dumps(spelled, ensure_ascii=False) + ("i" if self.any_case else "")


@dataclass
class _Class:
    """One character of several; `chars` is a class between brackets."""

    chars: str
    any_case: bool

    def written(self, *, last: bool) -> str:
        return self._choice("")

    def repeated(self, times: str) -> str:
        """At the end of a regex a run is one word for the lexer: nothing in the regex wants its last characters."""
        return f"{self._choice('+')}{times}"

    def _choice(self, run: str) -> str:
        escapes = self._members()
        chars = f"[{self.chars}&&{_OTHERS}]" if escapes else self.chars
        plain = f"/(?i:{chars}{run})/" if self.any_case else f"/{chars}{run}/"
        spellings = "|".join(json.dumps(char)[2:-1].replace("\\", "\\\\") for char in escapes)
        return f"({plain} | /\\\\({spellings})/)" if escapes else plain

    def _members(self) -> list[str]:
        """The characters with an escape that are in the class."""
        portable = _CODE.sub(lambda code: f"\\U{int(next(filter(None, code.groups())), 16):08x}", self.chars)
        try:
            one = re.compile(portable, re.ASCII)
        except re.error:
            raise Beyond from None
        return [char for char in _ESCAPED if one.fullmatch(char)]


@dataclass
class _Repeated:
    item: _Item
    times: str

    def written(self, *, last: bool) -> str:
        if last and isinstance(self.item, _Class) and self.times in ("*", "+"):
            return self.item.repeated(self.times)
        return f"({self.item.written(last=False)}){self.times}"


@dataclass
class _Options:
    """Sequences of items, one of which it is."""

    options: list[list[_Item]] = field(default_factory=lambda: [[]])

    def written(self, *, last: bool) -> str:
        return " | ".join(_sequence(option, last=last) for option in self.options)


_Item = _Text | _Class | _Repeated | _Options


def _sequence(items: list[_Item], *, last: bool) -> str:
    pieces = [
        f"({text})" if isinstance(item, _Options) else text
        for at, item in enumerate(items)
        for text in [item.written(last=last and at == len(items) - 1)]
    ]
    return " ".join(pieces) or '""'


@dataclass
class _Group:
    """An open group and the flags in force in it."""

    any_case: bool
    dot_all: bool
    tree: _Options = field(default_factory=_Options)


class _Reader:
    """Reads one regex from left to right."""

    def __init__(self, source: str, *, any_case: bool, dot_all: bool) -> None:
        self._source = source
        self._groups = [_Group(any_case, dot_all)]
        self._at = 0

    def read(self) -> _Options:
        while self._at < len(self._source):
            self._next()
        if len(self._groups) != 1:
            raise Beyond
        return self._groups[0].tree

    def _next(self) -> None:
        char = self._source[self._at]
        group = self._groups[-1]
        if char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            self._at += 1
            group.tree.options.append([])
        elif times := _TIMES.match(self._source, self._at):
            self._repeat(times)
        elif char in "^$":
            raise Beyond
        else:
            self._items.append(self._one())

    @property
    def _items(self) -> list[_Item]:
        return self._groups[-1].tree.options[-1]

    def _one(self) -> _Item:
        """One character or class."""
        group = self._groups[-1]
        char = self._source[self._at]
        if char == "[":
            found = _CLASS.match(self._source, self._at)
            if found is None or any(word in found[0] for word in _SET_WORDS):
                raise Beyond
            self._at = found.end()
            return _Class(found[0], group.any_case)
        if char == "\\":
            return self._escape(group)
        self._at += 1
        if char == ".":
            return _Class("[\\s\\S]" if group.dot_all else "[^\\n]", group.any_case)
        return _Text(char, group.any_case)

    def _escape(self, group: _Group) -> _Item:
        code = _CODE.match(self._source, self._at)
        if code is not None:
            self._at = code.end()
            return _Text(chr(int(next(filter(None, code.groups())), 16)), group.any_case)
        letter = self._source[self._at + 1 : self._at + 2]
        self._at += 2
        if letter in _SIMPLE:
            return _Text(_SIMPLE[letter], False)
        if letter and letter in "dwsDWS":
            return _Class(f"[\\{letter}]", group.any_case)
        if not letter or letter.isalnum():
            raise Beyond
        return _Text(letter, group.any_case)

    def _repeat(self, times: re.Match[str]) -> None:
        if not self._items or times[2]:
            raise Beyond
        self._at = times.end()
        self._items.append(_Repeated(self._items.pop(), times[1]))

    def _open(self) -> None:
        """Flags hold in their group; where they are alone, to the end of the group around them."""
        outer = self._groups[-1]
        if not self._source.startswith("(?", self._at):
            self._at += 1
            self._groups.append(_Group(outer.any_case, outer.dot_all))
            return
        found = _GROUP.match(self._source, self._at)
        if found is None or set((found[1] or "") + (found[2] or "")) - set("isu"):
            raise Beyond
        self._at = found.end()
        on, off = found[1] or "", found[2] or ""
        inner = _Group(
            (outer.any_case or "i" in on) and "i" not in off, (outer.dot_all or "s" in on) and "s" not in off
        )
        if found[3] == ")":
            outer.any_case, outer.dot_all = inner.any_case, inner.dot_all
        else:
            self._groups.append(inner)

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise Beyond
        self._at += 1
        tree = self._groups.pop().tree
        self._items.append(tree)
