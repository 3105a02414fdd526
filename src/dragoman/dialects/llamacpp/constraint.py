"""Native `grammar`, `json_schema`, `grammar_lazy` and `grammar_triggers` -> OutputFormat, and their echo in the
settings. Compiles nothing."""

from __future__ import annotations

from typing import Any, cast

from dragoman.core.errors import InvalidField
from dragoman.core.request import GrammarTrigger, OutputFormat
from dragoman.dialects.constraint import grammar_kind, read_triggers, schema_text
from dragoman.dialects.llamacpp.errors import field_error, type_name, wrong_type

NO_TRIGGERS = "Error: no triggers set for lazy grammar!"


def read_constraint(body: dict[str, Any], *, lazy: bool) -> OutputFormat | None:
    """The constraint, None for free text. A grammar wins over a schema; one that is no string counts as none."""
    triggers = _triggers(body, lazy=lazy)
    if triggers is None:
        return None
    grammar = body.get("grammar")
    if isinstance(grammar, str) and grammar:
        return OutputFormat(grammar_kind(grammar), grammar, "grammar", triggers=triggers)
    schema = body.get("json_schema")
    if schema is None:
        return None
    if not isinstance(schema, dict | bool):
        raise field_error("json_schema", wrong_type("object", schema))
    return OutputFormat("json_schema", schema_text(schema), "json_schema", triggers=triggers)


def echoed(body: dict[str, Any], format: OutputFormat | None) -> dict[str, Any]:
    """The grammar keys of `generation_settings`, as the client sent them. A schema has no grammar text of its own
    here."""
    if format is None:
        return {}
    grammar = format.text if format.field == "grammar" else ""
    return {"grammar": grammar, "grammar_triggers": body.get("grammar_triggers") or []}


def _triggers(body: dict[str, Any], *, lazy: bool) -> tuple[GrammarTrigger, ...] | None:
    """The triggers of a lazy grammar, () for one that applies from the start, None for one that never does: without
    the field nothing switches a lazy grammar on."""
    given = body.get("grammar_triggers")
    entries = [_trigger(entry) for entry in _entries(given)]
    if not lazy:
        return ()
    if given is None:
        return None
    if not entries:
        raise field_error("grammar_triggers", NO_TRIGGERS)
    try:
        return read_triggers(entries, "grammar_triggers")
    except InvalidField as error:
        raise field_error("grammar_triggers", error.message) from error


def _entries(given: object) -> list[object]:
    """The values of a list or an object, as a C++ loop over JSON has them."""
    if given is None:
        return []
    if isinstance(given, dict):
        return list(cast("dict[str, object]", given).values())
    return cast("list[object]", given) if isinstance(given, list) else [given]


def _trigger(entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise field_error(
            "grammar_triggers", f"[json.exception.type_error.304] cannot use at() with {type_name(entry)}"
        )
    fields = cast("dict[str, Any]", entry)
    for name, kind, wanted in (("type", int | float, "number"), ("value", str, "string")):
        if name not in fields:
            raise field_error("grammar_triggers", f"[json.exception.out_of_range.403] key '{name}' not found")
        if not isinstance(fields[name], kind):
            raise field_error("grammar_triggers", wrong_type(wanted, fields[name]))
    if fields["type"] == 0 and "token" not in fields:
        raise field_error("grammar_triggers", "[json.exception.out_of_range.403] key 'token' not found")
    return fields
