"""What a normalised schema says of a value, as far as encodings other than JSON must know it. Writes no grammar."""

from __future__ import annotations

from typing import Any, cast

from dragoman.grammar import keywords
from dragoman.grammar.schema import NormalSchema, Schema

_ALL = frozenset(keywords.TYPES)
_DEEPEST = 32


class SchemaView:
    """A part of a normalised schema with its references followed."""

    def __init__(self, normal: NormalSchema, part: Any) -> None:
        self._normal = normal
        self.part: Schema = _as_object(part)

    @property
    def target(self) -> SchemaView:
        """What a bare reference points at, else itself."""
        view, seen = self, 0
        while set(view.part) == {"$ref"} and seen < _DEEPEST:
            view = SchemaView(self._normal, self._normal.definitions[view.part["$ref"].rpartition("/")[2]])
            seen += 1
        return view

    @property
    def types(self) -> frozenset[str]:
        """The types a value may have; all where nothing is said."""
        return self._types(0)

    def _types(self, depth: int) -> frozenset[str]:
        if depth > _DEEPEST:
            return _ALL
        part = self.target.part
        found = _ALL
        given = part.get("type")
        if given is not None:
            found &= _spread({given} if isinstance(given, str) else set(cast("list[str]", given)))
        literals = self.literals
        if literals is not None:
            found &= {type_of(value) for value in literals}
        for keyword in ("anyOf", "oneOf"):
            if keyword in part:
                options = (SchemaView(self._normal, option) for option in part[keyword])
                found &= frozenset[str]().union(*(option._types(depth + 1) for option in options))
        for member in part.get("allOf", ()):
            found &= SchemaView(self._normal, member)._types(depth + 1)
        return found

    def only(self, name: str) -> bool:
        """Whether every value is of that type."""
        return self.types == frozenset({name})

    @property
    def literals(self) -> list[Any] | None:
        """The values there are, None where they are not listed."""
        part = self.target.part
        if "const" in part:
            return [part["const"]]
        return part.get("enum")

    @property
    def options(self) -> list[SchemaView] | None:
        """The alternatives, where it is nothing but alternatives."""
        part = self.target.part
        for keyword in ("anyOf", "oneOf"):
            if set(part) == {keyword}:
                return [SchemaView(self._normal, option) for option in part[keyword]]
        return None

    @property
    def properties(self) -> dict[str, SchemaView]:
        """Named keys in order; those that are required and not described count as anything."""
        part = self.target.part
        named: Schema = dict(part.get("properties", {}))
        for name in part.get("required", ()):
            named.setdefault(name, part.get("additionalProperties", True))
        return {name: SchemaView(self._normal, entry) for name, entry in named.items()}

    @property
    def required(self) -> frozenset[str]:
        """Keys that must be there."""
        return frozenset(self.target.part.get("required", ()))

    @property
    def open(self) -> SchemaView | None:
        """What keys without a description may hold, None where there must be none."""
        rest = self.target.part.get("additionalProperties", True)
        return None if rest is False else SchemaView(self._normal, rest)

    @property
    def items(self) -> SchemaView:
        """What the items of an array are."""
        return SchemaView(self._normal, self.target.part.get("items", True))

    @property
    def normal(self) -> NormalSchema:
        """It as a schema of its own."""
        return NormalSchema(schema=self.part, definitions=self._normal.definitions, places=[])


def type_of(value: Any) -> str:
    """The JSON type of a decoded value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def _as_object(part: Any) -> Schema:
    if isinstance(part, dict):
        return cast("Schema", part)
    return {} if part else {"enum": []}


def _spread(types: set[str]) -> frozenset[str]:
    return frozenset(types | {"integer"} if "number" in types else types)
