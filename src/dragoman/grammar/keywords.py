"""Keywords of JSON Schema by how they are treated. Data only."""

from __future__ import annotations

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})

BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})

MEMBERS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Lists of schemas."""

SINGLE = frozenset({"additionalProperties", "items", "additionalItems"})
"""One schema (`items` may be a list in older drafts)."""

KEYED = frozenset({"properties", "patternProperties"})
"""Objects of schemas."""

UNSUPPORTED = {
    "not": "excludes something ('not')",
    "then": "has a condition ('if')",
    "else": "has a condition ('if')",
    "dependentRequired": "makes keys depend on others ('dependentRequired')",
    "dependentSchemas": "makes keys depend on others ('dependentSchemas')",
    "dependencies": "makes keys depend on others ('dependencies')",
    "propertyNames": "restricts the names of keys ('propertyNames')",
    "contains": "asks for certain items ('contains')",
    "uniqueItems": "asks for items that differ ('uniqueItems')",
    "unevaluatedProperties": "restricts other keys ('unevaluatedProperties')",
    "unevaluatedItems": "restricts other items ('unevaluatedItems')",
    "$dynamicRef": "refers to something that depends on the way there ('$dynamicRef')",
    "$recursiveRef": "refers to something that depends on the way there ('$recursiveRef')",
}
"""Keywords that restrict a value and are not enforced, with what they do."""

TELLING = {
    "object": frozenset(
        {"properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties"}
    ),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"pattern", "format", "minLength", "maxLength"}),
}
"""Types, with the keywords that speak about no other."""

SHAPING = frozenset({"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"})
"""Keywords that say which types there may be, by themselves or through others."""
