"""Fields that the OpenAI generation wires share: limits, stops, session, what cannot be honoured. Knows no endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.request import CacheHints
from dragoman.dialects.decoding import unknown_fields
from dragoman.dialects.openai_sampling import SamplingFields

MAX_STOPS = 16
MAX_CHOICES = 16

_SESSION_HEADERS = ("x-session-affinity", "x-session-id", "session_id", "session-id")

# Fields other servers know on these wires, which change the answer and are not honoured here, with the values that
# ask for nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "adapter": ("", "none"),
    "adapters": ("", "none", []),
    "allowed_token_ids": ([],),
    "audio": (),
    "bad_words": ([],),
    "chat_template": (),
    "documents": ([],),
    "guided_whitespace_pattern": ("",),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "lora": ([],),
    "moderation": (),
    "preserved_tokens": ([],),
    "prompt_logprobs": (False,),
    "skip_special_tokens": (True,),
    "stop_token_ids": ([],),
    "structural_tag": (),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "web_search_options": (),
}


class StreamOptions(msgspec.Struct, kw_only=True):
    """`stream_options`; `continuous_usage_stats` is vLLM's."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class GenerationFields(SamplingFields, kw_only=True):
    """Fields of every OpenAI generation request. Those without a reader cannot change a local answer."""

    model: str | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    n_predict: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_prompt: bool | None = None
    return_progress: bool | None = None
    session_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None


def read_max_tokens(fields: GenerationFields) -> int | None:
    """The limit; the newest of its names wins, null and -1 mean the room left. Raises InvalidField below 1."""
    for name in ("max_completion_tokens", "max_output_tokens", "max_tokens", "n_predict"):
        value: int | None = getattr(fields, name)
        if value is None or value == -1:
            continue
        if value < 1:
            raise InvalidField(f"Invalid '{name}': {value} is below the minimum of 1.", field=name)
        return value
    return None


def read_stop(stop: str | list[str] | None) -> tuple[str, ...]:
    """Stop strings in order, empty ones left out since they name no text. Raises InvalidField for more than 16."""
    if stop is None:
        return ()
    stops = [stop] if isinstance(stop, str) else stop
    if len(stops) > MAX_STOPS:
        raise InvalidField(f"Invalid 'stop': at most {MAX_STOPS} stop strings are allowed.", field="stop")
    return tuple(text for text in stops if text)


def read_n(n: int | None) -> int:
    """Answers per prompt. Raises InvalidField outside 1 … 16."""
    if n is None:
        return 1
    if not 1 <= n <= MAX_CHOICES:
        raise InvalidField(f"Invalid 'n': {n} is not between 1 and {MAX_CHOICES}.", field="n")
    return n


def read_cache(fields: GenerationFields, headers: Mapping[str, str]) -> CacheHints:
    """Cache hints: the body names the session before a header does."""
    named = (fields.session_id, fields.prompt_cache_key, *(headers.get(name) for name in _SESSION_HEADERS))
    return CacheHints(
        session=next((name for name in named if name), None),
        reuse=fields.cache_prompt is not False,
    )


def read_ignored(value: dict[str, Any], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Names of fields nobody knows here. Raises UnsupportedField for one that is known but cannot be honoured."""
    unknown = unknown_fields(value, kind)
    for name in unknown:
        if name in _UNSUPPORTED:
            refuse_unless(name, value[name], *_UNSUPPORTED[name])
    return tuple(name for name in unknown if name not in _UNSUPPORTED)


def refuse_unless(name: str, value: Any, *neutral: Any) -> None:
    """Raises UnsupportedField when a field that cannot be honoured asks for something (null never does)."""
    if value is not None and value not in neutral:
        raise UnsupportedField(
            f"The field '{name}' is not supported by this server.", field=name, remedy="Leave it out."
        )


def ranged_int(value: int | None, name: str, low: int, high: int | None = None) -> int | None:
    """`value` when it is absent or within low … high. Raises InvalidField naming the field otherwise."""
    if value is not None and (value < low or (high is not None and value > high)):
        allowed = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InvalidField(f"Invalid '{name}': {value} is not {allowed}.", field=name)
    return value
