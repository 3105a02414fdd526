"""Whether a schema has any finite value at all: one that requires itself has none, and a model held to it would write
until its limit. Works on normalised schemas."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from dragoman.grammar.fixpoint import least

Schema = dict[str, Any]

_REFERENCE = re.compile(r'"#/\$defs/(d\d+)"')


def has_finite_value(schema: Any, definitions: dict[str, Any]) -> bool:
    """False only where it certainly has none."""
    uses = {name: _REFERENCE.findall(json.dumps(entry)) for name, entry in definitions.items()}
    return _finite(schema, least(uses, lambda name, known: _finite(definitions[name], known)))


def _finite(schema: Any, known: set[str]) -> bool:
    if isinstance(schema, bool):
        return schema
    rules = cast("Schema", schema)
    if "$ref" in rules and rules["$ref"].rpartition("/")[2] not in known:
        return False
    if not all(_finite(member, known) for member in rules.get("allOf", ())):
        return False
    for keyword in ("anyOf", "oneOf"):
        if keyword in rules and not any(_finite(member, known) for member in rules[keyword]):
            return False
    return _own(rules, known)


def _own(rules: Schema, known: set[str]) -> bool:
    """What the schema itself says about objects and arrays, where it allows nothing else."""
    types = rules.get("type")
    if types == "object":
        properties: Schema = rules.get("properties", {})
        rest = rules.get("additionalProperties", True)
        return all(_finite(properties.get(name, rest), known) for name in rules.get("required", ()))
    if types == "array":
        first: list[Any] = rules.get("prefixItems", [])
        least: int = rules.get("minItems", 0)
        if not all(_finite(member, known) for member in first[:least]):
            return False
        return least <= len(first) or _finite(rules.get("items", True), known)
    return True
