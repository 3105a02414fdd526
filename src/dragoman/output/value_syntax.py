"""How values other than strict JSON are written: data for `loose_value`."""

from __future__ import annotations

import re

from msgspec import Struct

_BARE_TEXT = re.compile(r"[^,{}\[\]\n\r<\"]+")
_BARE_WORD = re.compile(r"[^\s,:=(){}\[\]'\"<]+")


class Quote(Struct, frozen=True):
    """`mark` on both sides of a string; with `escapes` a backslash means something in it."""

    mark: str
    escapes: bool = True


class ValueSyntax(Struct, frozen=True, kw_only=True):
    """`quotes` longest first. `word` matches what is no string and no bracket. `keeps_blanks` passes white space on
    and leaves commas and colons alone, otherwise they are written as `json.dumps` does. `inner_quotes` takes a quote
    for part of its string unless something follows that may follow a string. `mends` counts what strict JSON would
    not have as a repair. `python` strings have Python's escapes."""

    quotes: tuple[Quote, ...]
    word: re.Pattern[str]
    keeps_blanks: bool = False
    inner_quotes: bool = False
    mends: bool = False
    python: bool = False


_DOUBLE, _SINGLE = Quote('"'), Quote("'")
PYTHON_VALUE = ValueSyntax(
    quotes=(Quote('"""'), Quote("'''"), _DOUBLE, _SINGLE),
    word=_BARE_WORD,
    python=True,
)
LENIENT_JSON = ValueSyntax(quotes=(_DOUBLE, _SINGLE), word=_BARE_TEXT, keeps_blanks=True, inner_quotes=True, mends=True)


def quoted_syntax(mark: str) -> ValueSyntax:
    """Bare keys, strings between two `mark`s; a model that falls back to JSON strings is understood."""
    return ValueSyntax(quotes=(Quote(mark, escapes=False), _DOUBLE), word=_BARE_TEXT)
