"""Native `grammar`, `json_schema`, `grammar_lazy` and `grammar_triggers` -> OutputFormat, and their echo in the
settings. Compiles nothing."""

from __future__ import annotations

from typing import Any, cast

from dragoman.core.errors import InvalidField
from dragoman.core.request import GrammarTrigger, OutputFormat
from dragoman.dialects.constraint import grammar_kind, read_triggers, schema_text
from dragoman.dialects.llamacpp.errors import field_error, wrong_type

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
    if given is not None and not isinstance(given, list):
        raise field_error("grammar_triggers", wrong_type("array", given))
    entries = cast("list[object]", given or [])
    if not lazy:
        return ()
    if given is None:
        return None
    if not entries:
        raise field_error("grammar_triggers", NO_TRIGGERS)
    if not all(isinstance(entry, dict) for entry in entries):
        raise field_error("grammar_triggers", wrong_type("object", next(e for e in entries if not isinstance(e, dict))))
    try:
        return read_triggers(cast("list[dict[str, Any]]", entries), "grammar_triggers")
    except InvalidField as error:
        raise field_error("grammar_triggers", error.message) from error
