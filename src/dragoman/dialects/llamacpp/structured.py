"""Native fields that are no plain numbers: what they must look like, and which of them this server cannot honour."""

from __future__ import annotations

from typing import Any, cast

from dragoman.dialects.llamacpp.casts import to_float, to_int32
from dragoman.dialects.llamacpp.errors import field_error, not_offered, wrong_type

_REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
_STRINGS = ("reasoning_budget_start_tag", "reasoning_budget_message", "generation_prompt", "chat_parser")
_LORA_ERROR = "Error: 'lora' must be an array of objects with 'id' and 'scale' fields"


def read_stop(value: object) -> tuple[str, ...]:
    """Stop strings. An empty string is kept: it matches at once. What is neither text nor list counts as none."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return ()
    words = [word for word in cast("list[object]", value) if word is not None]
    for word in words:
        if not isinstance(word, str):
            raise field_error("stop", wrong_type("string", word))
    return tuple(cast("list[str]", words))


def read_response_fields(body: dict[str, Any]) -> tuple[str, ...]:
    """Paths of the final object to be returned; anything but a list of strings means all of it."""
    value = body.get("response_fields")
    items = cast("list[object]", value) if isinstance(value, list) else []
    paths = tuple(item for item in items if isinstance(item, str))
    return paths if len(paths) == len(items) else ()


def read_reasoning_format(body: dict[str, Any]) -> str:
    """The name echoed in the settings; native answers are never split into thought and text by it."""
    value = body.get("reasoning_format")
    if value is None:
        return "deepseek"
    if not isinstance(value, str):
        raise field_error("reasoning_format", wrong_type("string", value))
    if value not in _REASONING_FORMATS:
        raise field_error("reasoning_format", f"Unknown reasoning format: {value}")
    return value


def check_shapes(body: dict[str, Any]) -> None:
    """Refuse structured fields of the wrong shape, in llama-server's words."""
    _check_stream_options(body.get("stream_options"))
    final = body.get("continue_final_message")
    if final is not None and not isinstance(final, bool) and final not in ("content", "reasoning_content"):
        problem = 'Invalid continue_final_message: expected a boolean, "content" or "reasoning_content"'
        raise field_error("continue_final_message", problem)
    for name in _STRINGS:
        value = body.get(name)
        if value is not None and not isinstance(value, str):
            raise field_error(name, wrong_type("string", value))
    _check_end_tags(body)
    if body.get("parse_tool_calls") is not None and not isinstance(body["parse_tool_calls"], bool):
        raise field_error("parse_tool_calls", wrong_type("boolean", body["parse_tool_calls"]))
    if body.get("chat_format") is not None and not isinstance(body["chat_format"], int | float):
        raise field_error("chat_format", wrong_type("number", body["chat_format"]))


def read_lora(body: dict[str, Any]) -> tuple[tuple[int, float], ...]:
    """Places and scales of the adapters of this request; none given means those of the server."""
    value = body.get("lora")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise field_error("lora", _LORA_ERROR)
    return lora_scales(cast("list[object]", value))


def lora_scales(items: list[object]) -> tuple[tuple[int, float], ...]:
    """Entries {id, scale}; what is missing or no number is -1 and 0."""
    found: list[tuple[int, float]] = []
    for item in items:
        entry = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        place, scale = entry.get("id", -1), entry.get("scale", 0.0)
        found.append(
            (
                to_int32(place) if isinstance(place, int | float) else -1,
                to_float(scale) if isinstance(scale, int | float) else 0.0,
            )
        )
    return tuple(found)


def read_preserved(body: dict[str, Any]) -> tuple[str, ...]:
    """Special tokens whose text belongs to the answer."""
    value = body.get("preserved_tokens")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise field_error("preserved_tokens", wrong_type("array", value))
    for item in cast("list[object]", value):
        if not isinstance(item, str):
            raise field_error("preserved_tokens", wrong_type("string", item))
    return tuple(cast("list[str]", value))


def read_slot(body: dict[str, Any]) -> int | None:
    """The slot asked for; None for any. A wrong type counts as none given, numbers below -1 wrap."""
    value = body.get("id_slot")
    if not isinstance(value, int | float):
        return None
    number = to_int32(value)
    return None if number == -1 else number


def refuse_unoffered(body: dict[str, Any], values: dict[str, Any]) -> None:
    """Refuse what is known, would change the answer, and cannot be done here. `values` are the scalar fields."""
    if values["reasoning_budget_tokens"] >= 0 and _has_end_tag(body):
        raise not_offered("reasoning_budget_tokens")


def _check_stream_options(value: object) -> None:
    if isinstance(value, dict):
        include = cast("dict[str, object]", value).get("include_usage")
        if include is not None and not isinstance(include, bool):
            raise field_error("include_usage", wrong_type("boolean", include))


def _check_end_tags(body: dict[str, Any]) -> None:
    """A text, or under its own name a list of texts."""
    name = "reasoning_budget_end_tags"
    value: object = body.get(name)
    if value is None:
        name = "reasoning_budget_end_tag"
        value = body.get(name)
    tags: list[object] = [value]
    if name.endswith("s") and isinstance(value, list):
        tags = cast("list[object]", value)
    elif name.endswith("s") and isinstance(value, dict):
        tags = list(cast("dict[str, object]", value).values())
    for tag in tags if value is not None else ():
        if not isinstance(tag, str):
            raise field_error(name, wrong_type("string", tag))


def _has_end_tag(body: dict[str, Any]) -> bool:
    return bool(body.get("reasoning_budget_end_tags") or body.get("reasoning_budget_end_tag"))
