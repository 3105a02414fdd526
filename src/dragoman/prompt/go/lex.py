"""Template text to pieces: plain text, and the words of each action (Go documentation, package text/template). Knows no
grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from dragoman.prompt.go.fault import GoTemplateFault

_COMMENT = re.compile(r"\{\{(?P<left>- )?\s*/\*(?s:.*?)\*/\s*?(?P<right> -)?\}\}")
_OPEN = re.compile(r"\{\{(?P<left>-(?=\s))?")
_CLOSE = re.compile(r"\s*(?P<right>(?<=\s)-)?\}\}")
_WORD = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    |(?P<char>'(?:[^'\\\n]|\\.)+')
    |(?P<number>[-+]?(?:0[xX][0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))
    |(?P<field>\.[A-Za-z_]\w*)
    |(?P<variable>\$\w*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>:=|[().|,=])
    |(?P<space>\s+)""",
    re.VERBOSE,
)


class Word(Struct, frozen=True):
    """One word of an action. `kind` is a group name of the pattern above; `spaced` tells that space stands before."""

    kind: str
    text: str
    spaced: bool = False


class Action(Struct, frozen=True):
    """What stands between a pair of double braces."""

    words: tuple[Word, ...]


Piece = str | Action


def lex(source: str) -> list[Piece]:
    """The pieces, trimmed where the braces have a dash. Raises GoTemplateFault."""
    pieces: list[Piece] = []
    at, trim = 0, False
    while at < len(source):
        begin = source.find("{{", at)
        text = source[at:] if begin < 0 else source[at:begin]
        text = text.lstrip() if trim else text
        if begin < 0:
            pieces.append(text)
            break
        action, left, trim, at = _action(source, begin)
        pieces.append(text.rstrip() if left else text)
        if action is not None:
            pieces.append(action)
    return [piece for piece in pieces if piece != ""]


def _action(source: str, begin: int) -> tuple[Action | None, bool, bool, int]:
    """The action at `begin` (None for a comment), whether it trims to the left and right, and where it ends."""
    comment = _COMMENT.match(source, begin)
    if comment:
        return None, comment["left"] is not None, comment["right"] is not None, comment.end()
    opened = _OPEN.match(source, begin)
    if opened is None:
        raise GoTemplateFault("an action does not begin")
    at, words, spaced = opened.end(), list[Word](), False
    while True:
        closed = _CLOSE.match(source, at)
        if closed:
            return Action(tuple(words)), opened["left"] is not None, closed["right"] is not None, closed.end()
        found = _WORD.match(source, at)
        if found is None:
            raise GoTemplateFault("an action is not closed" if at >= len(source) else f"{source[at : at + 10]!r} in it")
        at, kind = found.end(), found.lastgroup or ""
        if kind != "space":
            words.append(Word(kind, found[0], spaced))
        spaced = kind == "space"


def unquoted(text: str) -> str:
    """The value of a string or character literal."""
    if text.startswith("`"):
        return text[1:-1]
    return "".join(_unescaped(text[1:-1]))


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CODE = re.compile(r"\\(?:x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<one>.))|[^\\]+")


def _unescaped(text: str) -> Iterator[str]:
    for found in _CODE.finditer(text):
        if found["one"] is not None:
            yield _ESCAPES.get(found["one"], found["one"])
        elif found.lastgroup is not None:
            code = int(found[found.lastgroup], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise GoTemplateFault(f"{found[0]} is no character")
            yield chr(code)
        else:
            yield found[0]
