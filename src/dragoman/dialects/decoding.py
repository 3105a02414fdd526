"""Wire bytes to msgspec structs, with core errors that name the field. Shared by every dialect; knows none."""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

import msgspec

from dragoman.core.errors import InvalidField, InvalidJSON, InvalidRequest, MissingField

T = TypeVar("T")

_AT = re.compile(r" - at `(?:key in )?\$?(?P<path>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")


def decode_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises InvalidJSON, or InvalidRequest when it is JSON but no object."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJSON(f"The request body is not valid JSON: {_plain(error)}.") from error
    if not isinstance(value, dict):
        raise InvalidRequest(f"The request body must be a JSON object, not {_json_name(value)}.")
    return cast("dict[str, Any]", value)


def convert(value: object, kind: type[T], at: str = "") -> T:
    """`value` as `kind`. Raises MissingField or InvalidField with the dotted wire path (below `at`), InvalidJSON when
    `value` is nested too deeply for `kind`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _field_error(str(error), at) from error
    except RecursionError as error:
        raise InvalidJSON(f"The request body is not valid JSON: {_plain(error)}.") from error


def unknown_fields(value: dict[str, Any], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Keys of `value` that the struct `kind` does not have, sorted."""
    return tuple(sorted(set(value) - set(kind.__struct_encode_fields__)))


def _field_error(text: str, at: str) -> InvalidRequest:
    match = _AT.search(text)
    inner = match["path"].lstrip(".") if match else ""
    said = text[: match.start()] if match else text
    path = at + inner if inner.startswith("[") else ".".join(piece for piece in (at, inner) if piece)
    missing = _MISSING.match(said)
    if missing:
        name = ".".join(piece for piece in (path, missing["name"]) if piece)
        return MissingField(f"The field '{name}' is required.", field=name)
    return InvalidField(f"The field '{path}' is invalid: {said}." if path else f"{said}.", field=path or None)


def _plain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).rstrip(".")


def _json_name(value: object) -> str:
    names: tuple[tuple[type, str], ...] = (
        (list, "an array"),
        (str, "a string"),
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a number"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null")
