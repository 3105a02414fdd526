"""Structured-output fields of the OpenAI wires -> OutputFormat. Compiles nothing.

`response_format` is OpenAI's, the `guided_*` fields and `structured_outputs` are vLLM's, `grammar`, `json_schema` and
`grammar_triggers` are llama-server's, `any_whitespace` is mlx-bun's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.core.errors import InvalidField, InvalidRequest, MissingField, UnsupportedField
from dragoman.core.request import GrammarTrigger, OutputFormat
from dragoman.dialects.constraint import grammar_kind, one_format, read_triggers, schema_text
from dragoman.dialects.openai_fields import GenerationFields

_CONSTRAINTS = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
_VLLM_KEYS = frozenset(
    {*_CONSTRAINTS, "disable_any_whitespace", "disable_additional_properties", "whitespace_pattern", "backend"}
)
_VLLM_UNSUPPORTED = ("structural_tag", "disable_additional_properties", "whitespace_pattern")


class JsonSchema(msgspec.Struct, kw_only=True):
    """`response_format.json_schema`."""

    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None
    any_whitespace: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """`response_format`; some servers take the schema beside `type` instead of below `json_schema`."""

    type: str
    json_schema: JsonSchema | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None
    any_whitespace: bool | None = None


class FormatFields(GenerationFields, kw_only=True):
    """A generation request with all the fields that constrain its answer."""

    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_decoding_backend: str | None = None
    structured_outputs: dict[str, Any] | None = None
    grammar: str | None = None
    grammar_lazy: bool | None = None
    grammar_triggers: list[dict[str, Any]] | None = None
    json_schema: dict[str, Any] | None = None
    any_whitespace: bool | None = None


def read_format(fields: FormatFields) -> OutputFormat | None:
    """The constraint, None for free text. A grammar comes before a schema, a schema before any JSON, these before a
    regex and a choice. Raises InvalidRequest when two fields ask for different constraints."""
    chosen = one_format(format for format in _formats(fields) if format is not None)
    if chosen is None or fields.any_whitespace is not False:
        return chosen
    return replace(chosen, whitespace=False)


def _formats(fields: FormatFields) -> Iterator[OutputFormat | None]:
    yield _grammar(fields.guided_grammar, "guided_grammar")
    yield _grammar(fields.grammar, "grammar", _triggers(fields))
    yield _response_format(fields.response_format)
    yield _json(fields.guided_json, "guided_json")
    yield _json(fields.json_schema, "json_schema")
    yield _structured(fields.structured_outputs)
    yield _regex(fields.guided_regex, "guided_regex")
    yield _choice(fields.guided_choice, "guided_choice")


def _triggers(fields: FormatFields) -> tuple[GrammarTrigger, ...]:
    if fields.grammar_lazy is not True:
        return ()
    triggers = read_triggers(fields.grammar_triggers or (), "grammar_triggers")
    if not triggers:
        raise InvalidField("A lazy grammar needs at least one of 'grammar_triggers'.", field="grammar_triggers")
    return triggers


def _response_format(wanted: ResponseFormat | None) -> OutputFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type not in ("json_object", "json_schema"):
        raise InvalidField(
            f"Invalid 'response_format.type': '{wanted.type}' is not one of text, json_object, json_schema.",
            field="response_format.type",
        )
    inner = wanted.json_schema or JsonSchema()
    nested = wanted.json_schema is not None and (inner.schema is not None or wanted.schema is None)
    at = "response_format.json_schema.schema" if nested else "response_format.schema"
    schema = inner.schema if nested else wanted.schema
    whitespace = inner.any_whitespace is not False and wanted.any_whitespace is not False
    if schema is not None:
        strict = inner.strict is True or wanted.strict is True
        return OutputFormat("json_schema", schema_text(schema), at, strict, whitespace)
    if wanted.type == "json_object":
        return OutputFormat("json", whitespace=whitespace)
    missing = at if nested else "response_format.json_schema"
    raise MissingField(f"The field '{missing}' is required.", field=missing)


def _grammar(text: str | None, field: str, triggers: tuple[GrammarTrigger, ...] = ()) -> OutputFormat | None:
    return OutputFormat(grammar_kind(text), text, field, triggers=triggers) if text else None


def _regex(text: str | None, field: str) -> OutputFormat | None:
    return OutputFormat("regex", text, field) if text else None


def _json(schema: Any, name: str) -> OutputFormat | None:
    if schema is None:
        return None
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidField(f"The field '{name}' is not valid JSON: {error}.", field=name) from error
    if not isinstance(schema, dict | bool):
        raise InvalidField(f"The field '{name}' must be a JSON schema, an object or a boolean.", field=name)
    return OutputFormat("json_schema", schema_text(schema), name)


def _choice(choices: Any, name: str) -> OutputFormat | None:
    if choices is None:
        return None
    if not (isinstance(choices, list) and choices and all(isinstance(text, str) for text in choices)):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidField(f"The field '{name}' must be a list of at least one string.", field=name)
    return OutputFormat("choice", schema_text(choices), name)


def _structured(wanted: dict[str, Any] | None) -> OutputFormat | None:
    """vLLM's object, or the bare schema that mlx-bun takes under the same name."""
    at = "structured_outputs"
    given = {key: value for key, value in (wanted or {}).items() if value is not None and value is not False}
    if not given:
        return None
    if not set(given) <= _VLLM_KEYS:
        return OutputFormat("json_schema", schema_text(wanted), at)
    for key in _VLLM_UNSUPPORTED:
        if key in given:
            raise UnsupportedField(
                f"The field '{at}.{key}' is not supported by this server.", field=f"{at}.{key}", remedy="Leave it out."
            )
    asked = [key for key in _CONSTRAINTS if key in given]
    if len(asked) > 1:
        names = " and ".join(f"'{at}.{key}'" for key in asked)
        raise InvalidRequest(f"Only one output constraint is allowed, but the request has {names}.", field=at)
    if not asked:
        return None
    format = _vllm(asked[0], given[asked[0]], f"{at}.{asked[0]}")
    return replace(format, whitespace=False) if format and "disable_any_whitespace" in given else format


def _vllm(key: str, value: Any, at: str) -> OutputFormat | None:
    if key == "json":
        return _json(value, at)
    if key == "json_object":
        return OutputFormat("json", field=at)
    if key == "choice":
        return _choice(value, at)
    if not isinstance(value, str):
        raise InvalidField(f"The field '{at}' must be a string.", field=at)
    return _grammar(value, at) if key == "grammar" else _regex(value, at)
