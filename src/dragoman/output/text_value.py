"""A value written as plain text, spelled as JSON by what the schema lets it be. Knows no markup."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dragoman.output.argument_types import type_of
from dragoman.output.json_value import BLANK, JsonValue, ReadStatus
from dragoman.output.loose_value import LooseValue
from dragoman.output.value_syntax import PYTHON_VALUE

_NULLS = frozenset({"null", "none", "nil"})
_BOOLEANS = {"true": "true", "false": "false"}


def escaped(text: str) -> str:
    """`text` as it stands inside a JSON string. Lone surrogates, which no UTF-8 text has, must not occur."""
    return msgspec.json.encode(text)[1:-1].decode()


def is_plain_text(types: frozenset[str]) -> bool:
    """Whether a value of these types is a string whatever it looks like: so declared, or not declared at all."""
    return not types or types == frozenset({"string"})


def encode_text(text: str, types: frozenset[str]) -> str:
    """JSON for a value written as `text`.

    Text stays a string unless it reads as a value of a declared type: where both are allowed, `5` is the number and
    `02134`, which is no JSON number, the string. What does not read as any declared type stays a string too.
    """
    if is_plain_text(types):
        return f'"{escaped(text)}"'
    word = text.strip(BLANK)
    simple = _simple(word, types)
    if simple is not None:
        return simple
    for spelled in (_json(word), _python(word)):
        if spelled is not None and (fitted := _fitted(spelled, types)) is not None:
            return fitted
    return f'"{escaped(text)}"'


def _simple(word: str, types: frozenset[str]) -> str | None:
    lower = word.lower()
    if "null" in types and lower in _NULLS:
        return "null"
    return _BOOLEANS.get(lower) if "boolean" in types else None


def _fitted(spelled: str, types: frozenset[str]) -> str | None:
    value: Any = json.loads(spelled)
    kind = type_of(value)
    if kind in types or (kind == "integer" and "number" in types):
        return None if kind == "string" and "string" in types else spelled
    if kind == "number" and "integer" in types and value.is_integer():
        return str(int(value))
    # A value in quotes of its own, where no string is allowed.
    if kind == "string" and value != spelled:
        inner = encode_text(value, types)
        return inner if not inner.startswith('"') else None
    return None


def _json(word: str) -> str | None:
    value = JsonValue()
    source = f"{word} "
    end = value.feed(source, 0)
    return value.take() if value.status is ReadStatus.DONE and not source[end:].strip(BLANK) else None


def _python(word: str) -> str | None:
    if word[:1] not in ("{", "[", "("):
        return None
    value = LooseValue(PYTHON_VALUE)
    end = value.feed(word, 0)
    return value.take() if value.status is ReadStatus.DONE and end == len(word) else None
