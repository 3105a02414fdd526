"""Bytes to the bodies of this wire. Knows no route."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from dragoman.core.errors import InvalidRequest, MissingField
from dragoman.dialects.base import WireRequest
from dragoman.dialects.decoding import convert, decode_object

B = TypeVar("B", bound=msgspec.Struct)


def decode_body(wire: WireRequest, kind: type[B]) -> tuple[dict[str, Any], B]:
    """The fields as they came, and the body. Raises InvalidRequest and its kin; every body of this wire names a model,
    some of them by `name`, as they used to."""
    if not wire.body.strip():
        raise InvalidRequest("missing request body")
    fields = decode_object(wire.body)
    body = convert(fields, kind)
    if "model" in kind.__struct_fields__ and not model_of(body):
        raise MissingField("model is required", field="model")
    return fields, body


def model_of(body: msgspec.Struct) -> str:
    """The name of the model, '' when there is none."""
    return getattr(body, "model", None) or getattr(body, "name", None) or ""
