"""Structured-output fields of the OpenAI wires -> OutputFormat. Compiles nothing.

`response_format` is OpenAI's, the `guided_*` fields and `structured_outputs` are vLLM's, `grammar` and `json_schema`
are llama-server's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, InvalidRequest, MissingField
from dragoman.core.request import OutputFormat
from dragoman.dialects.openai_fields import GenerationFields

_VLLM_KEYS = frozenset({"json", "json_object", "regex", "choice", "grammar"})


class JsonSchema(msgspec.Struct, kw_only=True):
    """`response_format.json_schema`."""

    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """`response_format`; some servers take the schema beside `type` instead of below `json_schema`."""

    type: str
    json_schema: JsonSchema | None = None
    schema: dict[str, Any] | bool | None = None


class FormatFields(GenerationFields, kw_only=True):
    """A generation request with all the fields that constrain its answer."""

    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    structured_outputs: dict[str, Any] | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None


def read_format(fields: FormatFields) -> OutputFormat | None:
    """The constraint, None for free text. Raises InvalidRequest when two fields ask for different constraints."""
    found = list(_formats(fields))
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise InvalidRequest(f"Only one output constraint is allowed, but the request has {names}.", field=found[1][0])
    return found[0][1] if found else None


def schema_text(schema: Any) -> str:
    """A JSON schema as JSON text, keys in the order the client gave."""
    return msgspec.json.encode(schema).decode()


def _formats(fields: FormatFields) -> Iterator[tuple[str, OutputFormat]]:
    named = (
        ("response_format", _response_format(fields.response_format)),
        ("guided_json", _json(fields.guided_json, "guided_json")),
        ("guided_regex", _source("regex", fields.guided_regex)),
        ("guided_choice", _choice(fields.guided_choice, "guided_choice")),
        ("guided_grammar", _source("gbnf", fields.guided_grammar)),
        ("structured_outputs", _structured(fields.structured_outputs)),
        ("grammar", _source("gbnf", fields.grammar)),
        ("json_schema", _json(fields.json_schema, "json_schema")),
    )
    return ((name, found) for name, found in named if found is not None)


def _response_format(wanted: ResponseFormat | None) -> OutputFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    schema = wanted.json_schema.schema if wanted.json_schema is not None else wanted.schema
    if wanted.type == "json_object":
        return OutputFormat("json") if schema is None else OutputFormat("json_schema", schema_text(schema))
    if wanted.type != "json_schema":
        raise InvalidField(
            f"Invalid 'response_format.type': '{wanted.type}' is not one of text, json_object, json_schema.",
            field="response_format.type",
        )
    if schema is None:
        name = "response_format.json_schema" + (".schema" if wanted.json_schema is not None else "")
        raise MissingField(f"The field '{name}' is required.", field=name)
    return OutputFormat("json_schema", schema_text(schema))


def _source(kind: Any, text: str | None) -> OutputFormat | None:
    return OutputFormat(kind, text) if text else None


def _json(schema: Any, name: str) -> OutputFormat | None:
    if schema is None:
        return None
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except msgspec.DecodeError as error:
            raise InvalidField(f"The field '{name}' is not valid JSON: {error}.", field=name) from error
    return OutputFormat("json_schema", schema_text(schema))


def _choice(choices: Any, name: str) -> OutputFormat | None:
    if choices is None:
        return None
    if not (isinstance(choices, list) and choices and all(isinstance(text, str) for text in choices)):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidField(f"The field '{name}' must be a list of at least one string.", field=name)
    return OutputFormat("choice", schema_text(choices))


def _structured(wanted: dict[str, Any] | None) -> OutputFormat | None:
    """vLLM's object, or the bare schema that mlx-bun takes under the same name."""
    given = {key: value for key, value in (wanted or {}).items() if value is not None and value is not False}
    if not given:
        return None
    if not set(given) <= _VLLM_KEYS:
        return OutputFormat("json_schema", schema_text(wanted))
    if len(given) > 1:
        raise InvalidRequest("Only one output constraint is allowed.", field="structured_outputs")
    (key, value), at = next(iter(given.items())), "structured_outputs"
    if key == "json":
        return _json(value, f"{at}.json")
    if key == "json_object":
        return OutputFormat("json")
    if key == "choice":
        return _choice(value, f"{at}.choice")
    if not isinstance(value, str):
        raise InvalidField(f"The field '{at}.{key}' must be a string.", field=f"{at}.{key}")
    return _source("gbnf" if key == "grammar" else "regex", value)
