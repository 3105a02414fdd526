"""One spelling for what clients spell in many: JSON objects whose keys come in any order, call ids of any form.

Equal conversations must give equal prompts, or no prefix is ever found again. Knows no template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from dragoman.core.messages import ToolCallPart
from dragoman.prompt.turns import Turn

_ORDER = (
    "$schema", "$id", "$ref", "title", "type", "description", "format", "enum", "const", "default", "properties",
    "required", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf",
)  # fmt: skip
"""Keys of a JSON Schema in the order people write them; the others follow by name."""
_RANK = {key: rank for rank, key in enumerate(_ORDER)}
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples"})


def canonical_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, its keys in one order whatever order the client's language put them in. Properties come as
    `required` lists them, then by name: their order steers the order in which a model fills them in. A schema nested
    beyond all measure stays as it is."""
    try:
        return _ordered(schema)
    except RecursionError:
        return schema


def _ordered(schema: dict[str, Any]) -> dict[str, Any]:
    keys = sorted(schema, key=lambda key: (_RANK.get(key, len(_RANK)), key))
    return {key: _member(key, schema[key], schema) for key in keys}


def _member(key: str, value: Any, schema: dict[str, Any]) -> Any:
    if key in _DATA:
        return _sorted_data(value)
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        if key in _MAPS:
            return {name: _schema(inner[name]) for name in _property_order(inner, schema.get("required"))}
        return _ordered(inner)
    return [_schema(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _schema(value: Any) -> Any:
    return _ordered(cast("dict[str, Any]", value)) if isinstance(value, dict) else value


def _property_order(properties: dict[str, Any], required: object) -> Iterable[str]:
    listed = cast("list[object]", required) if isinstance(required, list) else []
    first = dict.fromkeys(name for name in listed if isinstance(name, str) and name in properties)
    return [*first, *sorted(properties.keys() - first.keys())]


def _sorted_data(value: Any) -> Any:
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return {key: _sorted_data(inner[key]) for key in sorted(inner)}
    return [_sorted_data(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def with_call_ids(turns: Sequence[Turn], *, named: bool) -> list[Turn]:
    """The turns with call ids counted through the conversation, for templates that show them: nine letters and digits
    (what Mistral's templates insist on), or, `named`, the form of Kimi K2 that carries the function's name."""
    ids: dict[str, str] = {}
    count = 0
    renamed: list[Turn] = []
    for turn in turns:
        calls: list[ToolCallPart] = []
        for call in turn.calls:
            ids[call.id] = f"functions.{call.name}:{count}" if named else f"call{count:05d}"
            calls.append(msgspec.structs.replace(call, id=ids[call.id]))
            count += 1
        if calls:
            turn = msgspec.structs.replace(turn, calls=tuple(calls))
        elif turn.role == "tool":
            turn = msgspec.structs.replace(turn, call_id=ids.get(turn.call_id, turn.call_id))
        renamed.append(turn)
    return renamed
