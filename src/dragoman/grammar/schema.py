"""JSON Schema as clients write it -> the part of it that both engines' compilers enforce alike, or a refusal that names
the place. What is kept means the same or less than the original, never more. Compiles nothing.

References are gathered under `$defs`; annotations and keywords no standard knows are dropped, as the standard says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import msgspec

from dragoman.grammar import keywords
from dragoman.grammar.finite import has_finite_value
from dragoman.grammar.formats import PATTERNS, UNENFORCED
from dragoman.grammar.limits import Limits
from dragoman.grammar.references import References
from dragoman.grammar.refusal import SchemaPath, invalid_schema, too_large, unsupported_schema

Schema = dict[str, Any]

_FINEST, _WIDE = 1e-6, 1e-3


def decoded(text: str, field: str, limits: Limits) -> Any:
    """The schema of a JSON text. Raises InvalidField for one that is too large or no JSON."""
    if len(text.encode("utf-8", "replace")) > limits.text_bytes:
        raise too_large("JSON schema", f"is larger than {limits.text_bytes} bytes", field)
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise _too_deep(field, limits) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise invalid_schema(f"is not JSON ({error})", SchemaPath(), field) from error


def normalised(schema: Any, field: str, limits: Limits, *, narrow: bool = True) -> NormalSchema:
    """The enforceable form of `schema`, a decoded JSON value; `field` is its wire path, for refusals. Without `narrow`
    it means what the original means, as far as that is a matter of keys and types."""
    return _Normaliser(schema, field, limits, narrow=narrow).whole()


class NormalSchema(msgspec.Struct, frozen=True, kw_only=True):
    """`schema` as it goes to the compilers; `places` its parts with where they come from, for finding what a compiler
    refuses."""

    schema: Schema
    definitions: dict[str, Any]
    places: list[tuple[SchemaPath, Schema]]


class _Spot(msgspec.Struct, frozen=True):
    """How deep a schema lies, and whether it is the only one that speaks about its value. Only then may it be narrowed:
    given the type its keywords are about, and closed to keys it does not name."""

    depth: int = 0
    alone: bool = True

    def below(self, *, alone: bool) -> _Spot:
        return _Spot(self.depth + 1, self.alone and alone)


class _Normaliser:
    def __init__(self, root: Any, field: str, limits: Limits, *, narrow: bool) -> None:
        self._narrow = narrow
        self._root = root
        self._field = field
        self._limits = limits
        self._references = References(root, field)
        self._names: dict[tuple[str | int, ...], str] = {}
        self._waiting: list[tuple[str, Any, SchemaPath]] = []
        self._mixed: set[str] = set()
        self._places: list[tuple[SchemaPath, Schema]] = []
        self._nodes = 0
        self._rules: dict[str, Callable[[Schema, str, SchemaPath, _Spot], Schema]] = {
            "type": self._type,
            "enum": self._enum,
            "const": self._const,
            "required": self._required,
            "pattern": self._pattern,
            "format": self._format,
            "multipleOf": self._multiple,
            "$ref": self._reference,
            **dict.fromkeys(keywords.COUNTS, self._count),
            **dict.fromkeys(keywords.BOUNDS, self._bound),
            **dict.fromkeys(keywords.MEMBERS, self._members),
            **dict.fromkeys(keywords.SINGLE, self._single),
            **dict.fromkeys(keywords.KEYED, self._keyed),
            **dict.fromkeys(keywords.UNSUPPORTED, self._unsupported),
        }

    def whole(self) -> NormalSchema:
        """The root with all definitions it needs."""
        root = self._schema(self._root, SchemaPath(), _Spot())
        definitions: dict[str, Any] = {}
        while self._waiting:
            name, target, path = self._waiting.pop()
            definitions[name] = self._schema(target, path, _Spot(alone=name not in self._mixed))
        if root is False or not has_finite_value(root, definitions):
            raise invalid_schema("allows no finite value", SchemaPath(), self._field)
        return NormalSchema(schema={} if root is True else root, definitions=definitions, places=self._places)

    def _schema(self, schema: Any, path: SchemaPath, spot: _Spot) -> Any:
        self._visit(spot.depth)
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise invalid_schema("must be an object or a boolean", path, self._field)
        given = _modern(cast("Schema", schema))
        result: Schema = {}
        for keyword in given:
            rule = self._rules.get(keyword)
            if rule is not None:
                _merge(result, rule(given, keyword, path / keyword, spot))
        if spot.alone and self._narrow:
            _narrow(result)
        self._check_properties(result, path)
        self._places.append((path, result))
        return result

    def _visit(self, depth: int) -> None:
        self._nodes += 1
        if depth > self._limits.schema_depth:
            raise _too_deep(self._field, self._limits)
        if self._nodes > self._limits.schema_nodes:
            raise too_large("JSON schema", f"has more than {self._limits.schema_nodes} parts", self._field)

    # one method for each kind of keyword: what it adds to the result

    def _type(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        names = cast("list[Any]", value) if isinstance(value, list) else [value]
        for name in names:
            if name not in keywords.TYPES:
                raise invalid_schema(f"names a type that does not exist ({name!r})", path, self._field)
        if not names:
            raise invalid_schema("names no type", path, self._field)
        return {keyword: value}

    def _enum(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        if not isinstance(value, list) or not value:
            raise invalid_schema("must be a list with at least one value", path, self._field)
        self._visit_value(value, spot.depth)
        return {keyword: value}

    def _const(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        self._visit_value(given[keyword], spot.depth)
        return {keyword: given[keyword]}

    def _visit_value(self, value: Any, depth: int) -> None:
        self._visit(depth)
        inner = list(cast("Schema", value).values()) if isinstance(value, dict) else value
        for entry in cast("list[Any]", inner) if isinstance(inner, list) else []:
            self._visit_value(entry, depth + 1)

    def _required(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[Any]", value)):
            raise invalid_schema("must be a list of names", path, self._field)
        return {keyword: list(dict.fromkeys(cast("list[str]", value)))}

    def _pattern(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        if not isinstance(given[keyword], str):
            raise invalid_schema("must be a text", path, self._field)
        return {keyword: given[keyword]}

    def _format(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        name = given[keyword]
        if not isinstance(name, str):
            raise invalid_schema("must be a text", path, self._field)
        if name in UNENFORCED:
            raise unsupported_schema(f"asks for the format '{name}'", path, self._field)
        if name not in PATTERNS:
            return {}
        return {"allOf": [{"pattern": PATTERNS[name]}]} if "pattern" in given else {"pattern": PATTERNS[name]}

    def _multiple(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        if not _is_number(given[keyword]) or given[keyword] <= 0:
            raise invalid_schema("must be a number above 0", path, self._field)
        return {keyword: given[keyword]}

    def _count(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        if not _is_number(value) or value < 0 or value != int(value):
            raise invalid_schema("must be a whole number, 0 or more", path, self._field)
        if keyword.startswith("max"):
            return {keyword: int(value)} if value <= self._limits.largest_bound else {}
        if value > self._limits.largest_minimum:
            raise too_large(
                f"JSON schema at '{path}'", f"insists on more than {self._limits.largest_minimum}", self._field
            )
        return {keyword: int(value)}

    def _bound(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        if not _is_number(value):
            raise invalid_schema("must be a number", path, self._field)
        return {keyword: _inward(value, upper=keyword.endswith("aximum"))}

    def _members(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        if not isinstance(value, list) or not value:
            raise invalid_schema("must be a list with at least one schema", path, self._field)
        members = cast("list[Any]", value)
        if keyword == "prefixItems":
            below = spot.below(alone=not _is_mixed(given))
        else:
            below = spot.below(alone=keyword == "anyOf" and self._restricting(given) == {keyword})
        read = self._option if keyword == "oneOf" else self._schema
        return {keyword: [read(entry, path / i, below) for i, entry in enumerate(members)]}

    def _option(self, schema: Any, path: SchemaPath, spot: _Spot) -> Any:
        """An option of `oneOf`, without a reference at its top: compilers tell options apart only by what they see."""
        seen = 0
        while isinstance(schema, dict) and "$ref" in schema and seen < self._limits.definitions:
            if self._restricting(cast("Schema", schema)) != {"$ref"}:
                break
            schema, path = self._references.target(cast("Schema", schema)["$ref"], path / "$ref")
            seen += 1
        return self._schema(schema, path, spot)

    def _single(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        return {keyword: self._schema(given[keyword], path, spot.below(alone=not _is_mixed(given)))}

    def _keyed(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        value = given[keyword]
        if not isinstance(value, dict):
            raise invalid_schema("must be an object of schemas", path, self._field)
        entries = cast("Schema", value)
        below = spot.below(alone=not _is_mixed(given))
        return {keyword: {key: self._schema(entry, path / key, below) for key, entry in entries.items()}}

    def _reference(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        target, place = self._references.target(given[keyword], path)
        name = self._names.get(place.steps)
        if name is None:
            name = self._names[place.steps] = f"d{len(self._names)}"
            if len(self._names) > self._limits.definitions:
                raise too_large(
                    "JSON schema", f"refers to more than {self._limits.definitions} definitions", self._field
                )
            self._waiting.append((name, target, place))
        if name not in self._mixed and not (spot.alone and self._restricting(given) == {keyword}):
            self._mixed.add(name)
            self._waiting.append((name, target, place))
        return {keyword: f"#/$defs/{name}"}

    def _restricting(self, given: Schema) -> set[str]:
        """The keywords that mean anything."""
        return given.keys() & self._rules.keys()

    def _unsupported(self, given: Schema, keyword: str, path: SchemaPath, spot: _Spot) -> Schema:
        if _is_void(given, keyword):
            return {}
        raise unsupported_schema(keywords.UNSUPPORTED[keyword], path, self._field)

    def _check_properties(self, result: Schema, path: SchemaPath) -> None:
        """A grammar cannot tell whether freely named keys differ, so no more than one of them can be insisted on."""
        least = result.get("minProperties", 0)
        if least > 1 and least - len(result.get("required", ())) > 1:
            raise unsupported_schema("asks for keys that differ", path / "minProperties", self._field)


def _modern(schema: Schema) -> Schema:
    """Spellings of older drafts in today's: lists as `items`, exclusive bounds as flags."""
    result = dict(schema)
    if isinstance(schema.get("items"), list):
        result = {("prefixItems" if key == "items" else key): value for key, value in result.items()}
        if not result["prefixItems"]:
            del result["prefixItems"]
        rest = result.pop("additionalItems", None)
        if rest is not None:
            result["items"] = rest
    else:
        result.pop("additionalItems", None)
    for inclusive, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(result.get(exclusive), bool) and result.pop(exclusive) and inclusive in result:
            result[exclusive] = result.pop(inclusive)
    if result.get("unevaluatedProperties") is not None and not {"anyOf", "oneOf", "allOf", "$ref"} & result.keys():
        result.setdefault("additionalProperties", result.pop("unevaluatedProperties"))
    if result.get("unevaluatedItems") is not None and not {"anyOf", "oneOf", "allOf", "$ref"} & result.keys():
        result.setdefault("items", result.pop("unevaluatedItems"))
    return result


def _is_void(given: Schema, keyword: str) -> bool:
    """Whether the keyword restricts nothing here."""
    value = given[keyword]
    match keyword:
        case "uniqueItems":
            most = given.get("maxItems")
            return value is False or (isinstance(most, int) and most <= 1)
        case "then" | "else":
            return "if" not in given or value is True
        case "not":
            return value is False
        case "contains":
            return given.get("minContains") == 0 and "maxContains" not in given
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return value == {}
        case "unevaluatedProperties" | "unevaluatedItems" | "propertyNames":
            return value is True or value == {}
        case _:
            return False


def _merge(result: Schema, addition: Schema) -> None:
    for key, value in addition.items():
        if key == "allOf" and key in result:
            result[key] = [*result[key], *value]
        else:
            result[key] = value


def _is_mixed(given: Schema) -> bool:
    """Whether other schemas speak about the same value, and so about what is in it."""
    return not {"allOf", "anyOf", "oneOf", "$ref"}.isdisjoint(given)


def _narrow(result: Schema) -> None:
    """Whoever describes keys means an object, and those keys, though the standard lets every other type and every other
    key pass. What is left is valid all the same, and a model cannot go on inventing keys."""
    if keywords.SHAPING.isdisjoint(result):
        for type_name, telling in keywords.TELLING.items():
            if not telling.isdisjoint(result):
                result["type"] = type_name
                break
    if result.get("properties") and not _is_mixed(result) and "patternProperties" not in result:
        named = len(result["properties"].keys() | set(result.get("required", ())))
        if result.get("minProperties", 0) <= named and result["properties"].keys() >= set(result.get("required", ())):
            result.setdefault("additionalProperties", False)
    if result.get("type") == "number" and keywords.SHAPING.isdisjoint(result.keys() - {"type"}):
        _bound_digits(result)


def _bound_digits(result: Schema) -> None:
    """A number between two bounds gets six decimals: models that are not sure write digits until their limit. Narrow
    ranges keep theirs all, and so do numbers without bounds, which may have an exponent."""
    low = result.get("minimum", result.get("exclusiveMinimum"))
    high = result.get("maximum", result.get("exclusiveMaximum"))
    if low is not None and high is not None and high - low >= _WIDE:
        result.setdefault("multipleOf", _FINEST)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _inward(value: int | float, *, upper: bool) -> int | float:
    """Compilers read bounds as 64-bit floats; one that has no such form moves to its neighbour on the allowed side."""
    if isinstance(value, float) or int(float(value)) == value:
        return value
    near = float(value)
    if (near > value) == upper:
        near = math.nextafter(near, -math.inf if upper else math.inf)
    return int(near)


def _too_deep(field: str, limits: Limits) -> Exception:
    return too_large("JSON schema", f"is nested more than {limits.schema_depth} levels deep", field)
