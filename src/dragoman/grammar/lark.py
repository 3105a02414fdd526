"""Pieces of llguidance's Lark dialect: literals, regexes, special tokens, rules. Knows no format and no family."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from llguidance import regex_to_lark

HEADER = "%llguidance {}\n"

_HEADER_LINE = re.compile(r"\A\s*%llguidance\s*\{\s*\}\s*")
_REGEX_SPECIAL = frozenset("\\.+*?()|[]{}^$/&~#-")


def literal(text: str) -> str:
    """A string literal, which is JSON's form of it."""
    return json.dumps(text, ensure_ascii=False)


def regex(source: str) -> str:
    """A regex between slashes."""
    return f"/{regex_to_lark(source, '')}/"


def escaped(text: str) -> str:
    """The text as a regex that matches exactly it."""
    return "".join(_escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char in _REGEX_SPECIAL:
        return f"\\{char}"
    return f"\\x{{{ord(char):x}}}" if not char.isprintable() else char


def headless(text: str) -> str:
    """A grammar without the line that says whose dialect it is."""
    return _HEADER_LINE.sub("", text)


def nested(text: str) -> str:
    """A whole grammar as a rule's body."""
    return f"%lark {{\n{text.rstrip()}\n}}"


def token(id: int) -> str:
    """One special token."""
    return f"<[{id}]>"


def sequence(parts: Sequence[str]) -> str:
    """The parts one after the other; empty ones vanish."""
    return " ".join(part for part in parts if part) or '""'


def choice(parts: Sequence[str]) -> str:
    """One of the parts."""
    return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


class Rules:
    """Named rules in the order they were added. `start` is the whole answer."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._by_body: dict[str, str] = {}
        self._reserved: dict[str, str] = {}

    def add(self, stem: str, body: str, *, lazy: bool = False) -> str:
        """Add a rule under a name that begins with `stem`; gives the name. Equal rules are added once."""
        body = f"[lazy]: {body}" if lazy else f": {body}"
        known = self._by_body.get(body)
        if known is not None:
            return known
        name = stem if stem not in self._rules else f"{stem}_{len(self._rules)}"
        self._rules[name] = body
        self._by_body[body] = name
        return name

    def recursive(self, stem: str) -> str:
        """Reserve a name for a rule that uses itself; `define` it afterwards."""
        name = self._reserved[stem] = f"{stem}_{len(self._rules)}"
        self._rules[name] = ""
        return name

    def find(self, stem: str) -> str:
        """The first rule that was reserved under the stem, '' for none."""
        return self._reserved.get(stem, "")

    def define(self, name: str, body: str) -> None:
        """The body of a reserved rule."""
        self._rules[name] = f": {body}"

    def json(self, schema: dict[str, Any] | bool) -> str:
        """A rule for JSON that is valid against the schema, which is written into the text as it is."""
        return self.add("json", f"%json {json.dumps(schema, ensure_ascii=False)}")

    def text(self, start: str) -> str:
        """The grammar."""
        rules = "".join(f"{name}{body}\n" for name, body in self._rules.items())
        return f"{HEADER}start: {start}\n{rules}"
