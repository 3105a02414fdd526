"""Validates finished JSON against a normalised schema. Knows only the keywords that are left after normalising."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from dragoman.grammar.lark import HEADER
from dragoman.grammar.schema import NormalSchema, Schema
from dragoman.grammar.view import type_of

Matches = Callable[[str, str], bool]
"""(grammar text, text) -> whether it is in the language."""

_DEEPEST = 200


def is_valid(text: str, normal: NormalSchema, matches: Matches) -> bool:
    """Whether `text` is JSON and valid. Patterns are judged by the compiler that enforces them."""
    try:
        value: Any = json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return _Judge(normal, matches).valid(value, normal.schema, 0)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Judge:
    def __init__(self, normal: NormalSchema, matches: Matches) -> None:
        self._definitions = normal.definitions
        self._matches = matches

    def valid(self, value: Any, schema: Any, depth: int) -> bool:
        if isinstance(schema, bool):
            return schema
        if depth > _DEEPEST:
            return False
        rules = cast("Schema", schema)
        return (
            self._general(value, rules)
            and self._combined(value, rules, depth + 1)
            and self._of_type(value, rules, depth + 1)
        )

    def _general(self, value: Any, rules: Schema) -> bool:
        if "const" in rules and not _same(value, rules["const"]):
            return False
        if "enum" in rules and not any(_same(value, entry) for entry in rules["enum"]):
            return False
        types = rules.get("type")
        return types is None or any(_is(value, name) for name in ([types] if isinstance(types, str) else types))

    def _combined(self, value: Any, rules: Schema, depth: int) -> bool:
        if "$ref" in rules and not self.valid(value, self._definitions[rules["$ref"].rpartition("/")[2]], depth):
            return False
        if not all(self.valid(value, member, depth) for member in rules.get("allOf", ())):
            return False
        if "anyOf" in rules and not any(self.valid(value, member, depth) for member in rules["anyOf"]):
            return False
        return "oneOf" not in rules or sum(self.valid(value, member, depth) for member in rules["oneOf"]) == 1

    def _of_type(self, value: Any, rules: Schema, depth: int) -> bool:
        if isinstance(value, dict):
            return self._object(cast("Schema", value), rules, depth)
        if isinstance(value, list):
            return self._array(cast("list[Any]", value), rules, depth)
        if isinstance(value, str):
            within = rules.get("minLength", 0) <= len(value) <= rules.get("maxLength", len(value))
            return within and ("pattern" not in rules or self._found(rules["pattern"], value))
        return isinstance(value, bool) or value is None or _number(value, rules)

    def _object(self, value: Schema, rules: Schema, depth: int) -> bool:
        if not rules.get("minProperties", 0) <= len(value) <= rules.get("maxProperties", len(value)):
            return False
        if not value.keys() >= set(rules.get("required", ())):
            return False
        named: Schema = rules.get("properties", {})
        for key, entry in value.items():
            schemas = [named[key]] if key in named else []
            schemas += [sub for pattern, sub in rules.get("patternProperties", {}).items() if self._found(pattern, key)]
            schemas = schemas or [rules.get("additionalProperties", True)]
            if not all(self.valid(entry, schema, depth) for schema in schemas):
                return False
        return True

    def _array(self, value: list[Any], rules: Schema, depth: int) -> bool:
        if not rules.get("minItems", 0) <= len(value) <= rules.get("maxItems", len(value)):
            return False
        first: list[Any] = rules.get("prefixItems", [])
        schemas = [*first[: len(value)], *[rules.get("items", True)] * (len(value) - len(first))]
        return all(self.valid(entry, schema, depth) for entry, schema in zip(value, schemas, strict=True))

    def _found(self, pattern: str, text: str) -> bool:
        schema = json.dumps({"type": "string", "pattern": pattern})
        return self._matches(f"{HEADER}start: %json {schema}\n", json.dumps(text, ensure_ascii=False))


def _number(value: Any, rules: Schema) -> bool:
    number = Decimal(value)
    step = rules.get("multipleOf")
    return (
        ("minimum" not in rules or number >= Decimal(str(rules["minimum"])))
        and ("maximum" not in rules or number <= Decimal(str(rules["maximum"])))
        and ("exclusiveMinimum" not in rules or number > Decimal(str(rules["exclusiveMinimum"])))
        and ("exclusiveMaximum" not in rules or number < Decimal(str(rules["exclusiveMaximum"])))
        and (step is None or number % Decimal(str(step)) == 0)
    )


def _is(value: Any, name: str) -> bool:
    if isinstance(value, Decimal):
        return name == "number" or (name == "integer" and value == value.to_integral_value())
    kind = type_of(value)
    return kind == name or (kind == "integer" and name == "number")


def _same(value: Any, other: Any) -> bool:
    """JSON's equality: 1 and 1.0 are one number, true and 1 are not the same."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, int | Decimal) and isinstance(other, int | float):
        return Decimal(value) == Decimal(str(other))
    if isinstance(value, dict) and isinstance(other, dict):
        left, right = cast("Schema", value), cast("Schema", other)
        return left.keys() == right.keys() and all(_same(entry, right[key]) for key, entry in left.items())
    if isinstance(value, list) and isinstance(other, list):
        ours, theirs = cast("list[Any]", value), cast("list[Any]", other)
        return len(ours) == len(theirs) and all(_same(a, b) for a, b in zip(ours, theirs, strict=True))
    return bool(value == other)
