"""Body bytes to a JSON value with llama-server's syntax errors. Knows no route and no field."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dragoman.dialects.llamacpp.errors import NativeError, type_name
from dragoman.dialects.llamacpp.jsonfault import parse_fault

_MARK = b"\xef\xbb\xbf"


def decode(body: bytes) -> Any:
    """The JSON value of `body`. Malformed JSON is a 500 with the position and the reason."""
    try:
        return msgspec.json.decode(body.removeprefix(_MARK))
    except RecursionError as error:
        raise NativeError("The request body is nested too deeply.", status=500) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NativeError(parse_fault(body) or f"parse error: {error}", status=500) from error


def decode_or_empty(body: bytes) -> dict[str, Any]:
    """The JSON object of `body`; any other JSON value counts as an object without fields."""
    value = decode(body)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def decode_object(body: bytes) -> dict[str, Any]:
    """The JSON object of `body`; any other JSON value is a 400."""
    value = decode(body)
    if not isinstance(value, dict):
        raise NativeError(f"[json.exception.type_error.304] cannot use at() with {type_name(value)}")
    return cast("dict[str, Any]", value)
