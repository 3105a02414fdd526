"""`generation_settings`: the values in force, in llama-server's key order, floats as widened C floats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from dragoman.core.inforce import InForce
from dragoman.dialects.llamacpp.casts import as_float32
from dragoman.dialects.llamacpp.sampling import Chain

_KEYS = (
    "seed",
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_k",
    "top_p",
    "min_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "typical_p",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
    "stop",
    "max_tokens",
    "n_predict",
    "n_keep",
    "n_discard",
    "ignore_eos",
    "stream",
    "logit_bias",
    "n_probs",
    "min_keep",
    "grammar",
    "grammar_lazy",
    "grammar_triggers",
    "preserved_tokens",
    "chat_format",
    "reasoning_format",
    "reasoning_in_content",
    "generation_prompt",
    "samplers",
    "speculative.types",
    "timings_per_token",
    "post_sampling_probs",
    "backend_sampling",
    "lora",
)
_REQUEST_ONLY = frozenset(
    ["dry_sequence_breakers", "stop", "logit_bias", "grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens"]
)
_FIXED: dict[str, Any] = {
    "grammar": "",
    "grammar_triggers": [],
    "preserved_tokens": [],
    "chat_format": "Content-only",
    "reasoning_in_content": False,
    "generation_prompt": "",
    "speculative.types": "none",
    "lora": [],
}


def generation_settings(
    values: dict[str, Any],
    chain: Chain,
    stop: tuple[str, ...],
    reasoning_format: str,
    constraint: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """The 49 keys of a final object. `values` are the scalar fields by name, `constraint` the grammar keys of a request
    that has some."""
    known = {
        **_FIXED,
        **constraint,
        **values,
        "max_tokens": values["n_predict"],
        "stop": list(stop),
        "samplers": list(chain.samplers),
        "dry_sequence_breakers": list(chain.breakers),
        "logit_bias": shown_biases(pair for pair in chain.biases if isinstance(pair[0], int)),
        "reasoning_format": reasoning_format,
    }
    return {key: _printed(known[key]) for key in _KEYS}


def shown_biases(pairs: Iterable[tuple[int | str, float]]) -> list[dict[str, Any]]:
    """As echoed; minus infinity is null."""
    return [{"bias": _printed(bias), "token": token} for token, bias in pairs]


def settings_in_force(settings: dict[str, Any], found: InForce) -> dict[str, Any]:
    """The settings with what only the vocabulary could tell: ids of texts, and end tokens that may not come."""
    biases = (*found.biases, *((token, -math.inf) for token in found.end_tokens))
    return {**settings, "logit_bias": shown_biases(biases), "preserved_tokens": list(found.spelled)}


def default_settings(values: dict[str, Any], chain: Chain, reasoning_format: str = "none") -> dict[str, Any]:
    """The 42 keys that /props shows of a server's defaults, and /slots of a task."""
    settings = generation_settings(values, chain, (), reasoning_format)
    return {key: value for key, value in settings.items() if key not in _REQUEST_ONLY}


def _printed(value: Any) -> Any:
    if isinstance(value, float):
        return as_float32(value) if math.isfinite(value) else None
    return value
