"""How tools of this wire are called in core, and back: namespaces are flattened, custom tools take one argument."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

INPUT = "input"
"""The one argument of a custom tool's function form."""


class ToolName(Struct, frozen=True):
    """What a core tool is on the wire."""

    kind: Literal["function", "custom"]
    name: str
    namespace: str | None = None


def core_name(name: str, namespace: str | None) -> str:
    """`namespace.name`, or the name alone."""
    return f"{namespace}.{name}" if namespace else name


def custom_arguments(text: str) -> str:
    """The arguments of the function form of a custom tool called with `text`."""
    return msgspec.json.encode({INPUT: text}).decode()


def custom_input(arguments: str) -> str:
    """The text a custom tool was called with. Arguments of another shape are given as they are: nothing is lost."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return InputReader().feed(arguments) or arguments
    if isinstance(value, dict) and isinstance(value.get(INPUT), str):  # pyright: ignore[reportUnknownMemberType]
        return value[INPUT]  # pyright: ignore[reportUnknownVariableType]
    return arguments


class InputReader:
    """Reads the text out of `{"input": "…"}` while that is still being written."""

    def __init__(self) -> None:
        self._seen = ""
        self._at = -1
        self._over = False

    def feed(self, fragment: str) -> str:
        """The text that `fragment` adds. An escape that is not complete waits for its rest."""
        self._seen += fragment
        if self._over or (self._at < 0 and not self._find()):
            return ""
        end = self._readable()
        raw, self._seen, self._at = self._seen[self._at : end], self._seen[end:], 0
        if self._seen.startswith('"'):
            self._over = True
        return _unescaped(raw)

    def _find(self) -> bool:
        """Whether the opening quote is there. Other shapes never have one; the end of the call deals with them."""
        squeezed = self._seen.lstrip()
        for expected in ("{", f'"{INPUT}"', ":", '"'):
            if not squeezed.startswith(expected):
                return False
            squeezed = squeezed[len(expected) :].lstrip() if expected != '"' else squeezed[1:]
        self._seen, self._at = squeezed, 0
        return True

    def _readable(self) -> int:
        """Up to where the text is complete: the closing quote, an unfinished escape, a half pair of surrogates."""
        text, at = self._seen, 0
        while at < len(text) and text[at] != '"':
            if text[at] != "\\":
                at += 1
                continue
            length = _escape_length(text, at)
            if length == 0:
                break
            at += length
        return at


def _escape_length(text: str, at: int) -> int:
    """Characters of the escape at `at`, both halves of a surrogate pair; 0 while it is not complete."""
    if len(text) < at + 2:
        return 0
    if text[at + 1] != "u":
        return 2
    if len(text) < at + 6:
        return 0
    if not _is_high(text[at + 2 : at + 6]):
        return 6
    if text[at + 6 : at + 8] == "\\u":
        return 12 if len(text) >= at + 12 else 0
    return 6 if len(text) > at + 7 or (len(text) > at + 6 and text[at + 6] != "\\") else 0


def _is_high(digits: str) -> bool:
    return digits[:1] in "dD" and digits[1:2] in "89abAB"


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    try:
        return msgspec.json.decode(f'"{raw}"', type=str)
    except (msgspec.DecodeError, UnicodeError):
        return raw
