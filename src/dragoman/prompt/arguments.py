"""Tool-call arguments for templates. Knows no template."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dragoman.core.messages import ToolCallPart


def decoded_arguments(call: ToolCallPart) -> dict[str, Any] | str:
    """The arguments as a map, decoded once; the raw text where it is not the JSON of an object. No text is no
    arguments: clients send '' or null for calls without any."""
    text = call.arguments.strip()
    if text in ("", "null"):
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return call.arguments
    return cast("dict[str, Any]", value) if isinstance(value, dict) else call.arguments


def wrapped_arguments(call: ToolCallPart) -> dict[str, Any]:
    """Like `decoded_arguments`, with raw text inside a map: for templates that accept nothing but maps."""
    value = decoded_arguments(call)
    return {"arguments": value} if isinstance(value, str) else value
