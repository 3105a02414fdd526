"""Constraint sources of any wire -> OutputFormat: schemas, grammars, triggers, and which of several counts. Compiles
nothing and knows no wire."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.core.request import GrammarTrigger, OutputFormat

Grammar = Literal["gbnf", "lark"]

_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*')
_TRIGGERS: tuple[Literal["token", "word", "pattern", "pattern_full"], ...] = (
    "token",
    "word",
    "pattern",
    "pattern_full",
)


def schema_text(schema: Any) -> str:
    """A JSON schema as JSON text, keys in the order the client gave."""
    return msgspec.json.encode(schema).decode()


def grammar_kind(text: str) -> Grammar:
    """Lark where the text says so or has no rule written with `::=`, else GBNF."""
    if text.lstrip().startswith("%llguidance"):
        return "lark"
    return "gbnf" if "::=" in _QUOTED.sub("", text) else "lark"


def one_format(found: Iterable[OutputFormat]) -> OutputFormat | None:
    """The constraint that counts, of those given in order of precedence; None for free text.

    One that is implied by another (any JSON beside a schema, twice the same) is no contradiction. Raises
    InvalidRequest naming both fields for two that differ.
    """
    chosen: OutputFormat | None = None
    for format in found:
        if chosen is None:
            chosen = format
        elif implies(chosen, format):
            chosen = _both(chosen, format)
        elif implies(format, chosen):
            chosen = _both(format, chosen)
        else:
            raise InvalidRequest(
                f"Only one output constraint is allowed, but '{chosen.field}' and '{format.field}' ask for different "
                "ones.",
                field=format.field,
            )
    return chosen


def implies(narrow: OutputFormat, wide: OutputFormat) -> bool:
    """Whether every answer `narrow` allows is one `wide` allows, as far as their kinds tell."""
    if narrow.triggers != wide.triggers:
        return False
    return (narrow.kind, narrow.text) == (wide.kind, wide.text) or (narrow.kind, wide.kind) == ("json_schema", "json")


def _both(narrow: OutputFormat, wide: OutputFormat) -> OutputFormat:
    return replace(narrow, strict=narrow.strict or wide.strict, whitespace=narrow.whitespace and wide.whitespace)


def read_triggers(entries: Iterable[Mapping[str, Any]], field: str) -> tuple[GrammarTrigger, ...]:
    """llama-server's `{type, value[, token]}` objects; types by number or name. Raises InvalidField with the path."""
    return tuple(_trigger(entry, f"{field}[{index}]") for index, entry in enumerate(entries))


def _trigger(entry: Mapping[str, Any], at: str) -> GrammarTrigger:
    kind = entry.get("type")
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(_TRIGGERS):
        kind = _TRIGGERS[kind]
    if kind not in _TRIGGERS:
        raise InvalidField(f"The field '{at}.type' must be 0 token, 1 word, 2 pattern or 3 pattern_full.", field=at)
    value, token = entry.get("value", ""), entry.get("token")
    if not isinstance(value, str) or (kind != "token" and not value):
        raise InvalidField(f"The field '{at}.value' must be a text.", field=f"{at}.value")
    if kind == "token" and (not isinstance(token, int) or isinstance(token, bool)):
        raise InvalidField(f"The field '{at}.token' must be a token id.", field=f"{at}.token")
    return GrammarTrigger(kind, value, token if kind == "token" else None)
