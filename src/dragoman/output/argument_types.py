"""Which JSON types a tool's declared schema lets an argument have. Knows no markup and validates nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

Schema = Mapping[str, Any]
_MAX_DEPTH = 32
_OBJECT_WORDS = ("properties", "additionalProperties", "patternProperties", "required")
_ARRAY_WORDS = ("items", "prefixItems", "minItems", "maxItems")
_STRING_WORDS = ("pattern", "minLength", "maxLength", "format")


class ArgumentTypes:
    """Types by argument name, through `$ref` into the same document, `anyOf`, `oneOf`, `allOf`, `enum`, `const`,
    lists of types and `nullable`. An argument nobody declared, or declared without any type, has none."""

    def __init__(self, parameters: Schema | None) -> None:
        self._root: Schema = parameters or {}
        self._properties: dict[str, Any] = {}
        for part in self._parts(self._root, 0):
            declared = _mapping(part.get("properties"))
            for key in declared:
                self._properties.setdefault(key, declared[key])
        self._known: dict[str, frozenset[str]] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Declared argument names, in order."""
        return tuple(self._properties)

    def of(self, key: str) -> frozenset[str]:
        """JSON Schema type names `key` may have; empty when nothing is known."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._types(_mapping(self._properties.get(key)), 0)
        return known

    def _types(self, schema: Schema, depth: int) -> frozenset[str]:
        found: set[str] = set()
        for part in self._parts(schema, depth):
            found |= _own_types(part)
        return frozenset(found)

    def _parts(self, schema: Schema, depth: int) -> Iterator[Schema]:
        """The schema and all it is composed of."""
        if depth > _MAX_DEPTH:
            return
        yield schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self._parts(self._resolve(reference), depth + 1)
        for word in ("anyOf", "oneOf", "allOf"):
            options = schema.get(word)
            if isinstance(options, list):
                for option in cast("list[Any]", options):
                    yield from self._parts(_mapping(option), depth + 1)

    def _resolve(self, reference: str) -> Schema:
        node: Any = self._root
        if not reference.startswith("#"):
            return {}
        for step in reference[1:].split("/")[1:]:
            node = _mapping(node).get(step.replace("~1", "/").replace("~0", "~"))
        return _mapping(node)


def _own_types(schema: Schema) -> set[str]:
    declared = schema.get("type")
    names: list[Any] = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    found = {name for name in names if isinstance(name, str)}
    if schema.get("nullable") is True:
        found.add("null")
    if not found:
        found |= _implied_types(schema)
    return found


def _implied_types(schema: Schema) -> set[str]:
    values = schema.get("enum")
    if isinstance(values, list):
        return {type_of(value) for value in cast("list[Any]", values)}
    if "const" in schema:
        return {type_of(schema["const"])}
    for name, words in (("object", _OBJECT_WORDS), ("array", _ARRAY_WORDS), ("string", _STRING_WORDS)):
        if any(word in schema for word in words):
            return {name}
    return set()


def type_of(value: Any) -> str:
    """The JSON Schema type name of a decoded JSON value; `integer` for whole numbers."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _mapping(value: Any) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}
