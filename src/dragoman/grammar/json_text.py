"""JSON schemas as rules of a grammar, and the finding of what a compiler refuses in them. Knows no tool and no wire."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from dragoman.core.errors import InvalidRequest
from dragoman.grammar.lark import HEADER, Rules
from dragoman.grammar.limits import Limits
from dragoman.grammar.refusal import SchemaPath, invalid_schema, unsupported_schema
from dragoman.grammar.schema import NormalSchema, Schema, normalised

Try = Callable[[str], str]
"""A grammar text -> what a compiler says against it, '' for nothing."""

_MOST_TRIALS = 300
_LONGEST_SEARCH = 1.0
_NO_REGEX = "regex parse error"

# Fixed blanks, since free ones let a model write them until its limit. Both compilers in use take these two alike,
# as text or as regexes.
_SPACED = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}


class JsonRules:
    """Writes the schemas of one constraint into its rules and remembers them, to blame the right one later."""

    def __init__(self, rules: Rules, limits: Limits) -> None:
        self._rules = rules
        self._limits = limits
        self._written: list[tuple[NormalSchema, str]] = []

    def value(self, schema: Any, field: str, *, spaced: bool = True) -> str:
        """An expression for JSON that is valid against the schema, a decoded JSON value whose wire path is `field`."""
        normal = normalised(schema, field, self._limits)
        return self.normal(normal, field, spaced=spaced)

    def normal(self, normal: NormalSchema, field: str, *, spaced: bool = True) -> str:
        """The same for a schema that has been normalised."""
        self._written.append((normal, field))
        return self._rules.json(complete(normal.schema, normal, spaced=spaced))

    def blame(self, attempt: Try) -> InvalidRequest | None:
        """The refusal of the smallest part of a schema that `attempt` has something against."""
        for normal, field in self._written:
            found = _culprit(normal, attempt)
            if found is not None:
                return _refusal(found[0], found[1], field)
        return None


def complete(part: Schema, normal: NormalSchema, *, spaced: bool = True) -> Schema:
    """A part of a schema that stands alone, with the definitions it needs and the blanks it is written with."""
    needed = _needed(part, normal.definitions)
    definitions = {"$defs": needed} if needed else {}
    return {"x-guidance": _SPACED if spaced else _COMPACT, **part, **definitions}


def _needed(part: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting = [part]
    while waiting:
        for name in re.findall(r'"#/\$defs/(d\d+)"', json.dumps(waiting.pop())):
            if name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
    return found


def _culprit(normal: NormalSchema, attempt: Try) -> tuple[SchemaPath, str] | None:
    whole = attempt(_text(complete(normal.schema, normal)))
    if not whole:
        return None
    started = time.monotonic()
    parts = {json.dumps(part): (path, part) for path, part in reversed(normal.places)}
    for text in sorted(parts, key=len)[:_MOST_TRIALS]:
        path, part = parts[text]
        reason = attempt(_text(complete(part, normal)))
        if reason:
            return _pattern_in(part, path) if _NO_REGEX in reason else path, reason
        if time.monotonic() - started > _LONGEST_SEARCH:
            break
    return SchemaPath(), whole


def _pattern_in(part: Schema, path: SchemaPath) -> SchemaPath:
    return next((path / keyword for keyword in ("pattern", "patternProperties") if keyword in part), path)


def _text(schema: Schema) -> str:
    return f"{HEADER}start: %json {json.dumps(schema)}\n"


def _refusal(path: SchemaPath, reason: str, field: str) -> InvalidRequest:
    """The compiler's reason in terms of the schema."""
    if _NO_REGEX in reason:
        detail = re.search(r"^error: (.*)$", reason, re.MULTILINE)
        why = detail[1] if detail else "it cannot be read"
        return invalid_schema(f"holds what is no regex here ({why})", path, field)
    if "Unsatisfiable" in reason:
        return invalid_schema("allows no value at all", path, field)
    if "oneOf" in reason:
        return unsupported_schema("has 'oneOf' options that may overlap", path / "oneOf", field)
    if "min/maxProperties" in reason:
        return unsupported_schema("counts keys of which some are named and optional", path, field)
    if "not disjoint" in reason:
        return unsupported_schema("has 'patternProperties' that may overlap", path / "patternProperties", field)
    if "too large" in reason or "too big" in reason or "limit" in reason:
        return invalid_schema("is too large", path, field)
    clause = reason.partition("failed to compile JSON schema: ")[2].partition("\n")[0] or reason.partition("\n")[0]
    return unsupported_schema(f"cannot be compiled ({clause.strip()})", path, field)
