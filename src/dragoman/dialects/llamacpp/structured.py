"""Native fields that are no plain numbers: what they must look like, and which of them this server cannot honour."""

from __future__ import annotations

from typing import Any, cast

from dragoman.dialects.llamacpp.errors import field_error, not_offered, wrong_type

_REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
_STRINGS = ("reasoning_budget_start_tag",)


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
    if not isinstance(body.get("lora") or [], list):
        raise field_error("lora", "Error: 'lora' must be an array of objects with 'id' and 'scale' fields")
    _check_preserved(body.get("preserved_tokens"))


def refuse_unoffered(body: dict[str, Any], values: dict[str, Any]) -> None:
    """Refuse what is known, would change the answer, and cannot be done here. `values` are the scalar fields."""
    asked = {
        "grammar": isinstance(body.get("grammar"), str) and body["grammar"] != "",
        "json_schema": body.get("json_schema") is not None,
        "lora": bool(body.get("lora")),
        "preserved_tokens": bool(body.get("preserved_tokens")),
        "n_indent": values["n_indent"] > 0,
        "t_max_predict_ms": values["t_max_predict_ms"] > 0,
        "n_cache_reuse": values["n_cache_reuse"] > 0,
        "post_sampling_probs": values["post_sampling_probs"] and values["n_probs"] > 0,
        "reasoning_budget_tokens": values["reasoning_budget_tokens"] >= 0 and _has_end_tag(body),
    }
    for name, wanted in asked.items():
        if wanted:
            raise not_offered(name)
    if values["grammar_lazy"] and body.get("grammar_triggers") == []:
        raise field_error("grammar_triggers", "Error: no triggers set for lazy grammar!")


def _check_stream_options(value: object) -> None:
    if isinstance(value, dict):
        include = cast("dict[str, object]", value).get("include_usage")
        if include is not None and not isinstance(include, bool):
            raise field_error("include_usage", wrong_type("boolean", include))


def _check_preserved(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, list):
        raise field_error("preserved_tokens", wrong_type("array", value))
    for item in cast("list[object]", value):
        if not isinstance(item, str):
            raise field_error("preserved_tokens", wrong_type("string", item))


def _has_end_tag(body: dict[str, Any]) -> bool:
    return bool(body.get("reasoning_budget_end_tags") or body.get("reasoning_budget_end_tag"))
