"""A sampling spec in llama.cpp's native fields. Knows field names and neutral values, draws nothing.

Every stage is always sent, because llama.cpp fills absent fields with its own command line's defaults (temperature
0.8, top_k 40, …), and None means here that the stage is off.
"""

from __future__ import annotations

import math
from typing import Any

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.sampling import SamplingSpec

_DEFAULT_CHAIN = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
"""llama.cpp's own order of stages when a request has none."""

_STAGES = frozenset({*_DEFAULT_CHAIN, "adaptive_p", "infill"})
"""What `samplers` may name. llama.cpp drops other names with a line in its log, and the answer is another one."""

_RANDOM_SEED = 0xFFFFFFFF
"""The seed llama.cpp takes as 'draw one'."""

_SAME_NAME: dict[str, int | float] = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "min_keep": 0,
}
"""Fields spelled alike on both sides, with the value that turns the stage off (or its usual shape parameter)."""

HONOURED: frozenset[str] = frozenset(_SAME_NAME) | {
    "repetition_penalty",
    "penalty_window",
    "dry_penalty_window",
    "dry_sequence_breakers",
    "samplers",
    "seed",
    "logit_bias",
    "ignore_eos",
    "min_tokens",
}
"""The fields of SamplingSpec that are done here. `min_tokens` has no counterpart; see `wire.Work`."""


def native_sampling(spec: SamplingSpec, context_length: int) -> dict[str, Any]:
    """The native fields of `spec`; windows of -1 become `context_length`. Raises InvalidField for a value no JSON
    number can carry and UnsupportedField for a field that would be ignored."""
    _check(spec)
    fields: dict[str, Any] = {
        name: neutral if (value := getattr(spec, name)) is None else value for name, neutral in _SAME_NAME.items()
    }
    fields["repeat_penalty"] = 1.0 if spec.repetition_penalty is None else spec.repetition_penalty
    fields["repeat_last_n"] = _window(spec.penalty_window, context_length)
    fields["dry_penalty_last_n"] = _window(spec.dry_penalty_window, context_length)
    fields["ignore_eos"] = bool(spec.ignore_eos)
    if spec.dry_sequence_breakers is not None:
        fields["dry_sequence_breakers"] = list(spec.dry_sequence_breakers)
    if spec.logit_bias:
        fields["logit_bias"] = [[token, _bias(bias)] for token, bias in spec.logit_bias.items()]
    if (chain := _chain(spec)) is not None:
        fields["samplers"] = chain
    if spec.seed is not None:
        fields["seed"] = fold_seed(spec.seed)
    return fields


def fold_seed(seed: int, part: int = 0) -> int:
    """A seed of 64 bits in 32, the same every time and never the value that means 'random'. Seeds below 2**32 - 1
    are kept, so they draw what they draw on a bare llama-server. `part` numbers the parts of one answer."""
    mixed = seed & 0xFFFFFFFFFFFFFFFF
    folded = ((mixed >> 32) ^ mixed) & 0xFFFFFFFF
    folded = (folded + part * 0x9E3779B9) & 0xFFFFFFFF
    return 0 if folded == _RANDOM_SEED else folded


def _chain(spec: SamplingSpec) -> list[str] | None:
    """llama.cpp applies adaptive-p only where the chain lists it."""
    if spec.samplers is not None:
        return list(spec.samplers)
    if spec.adaptive_target is not None and spec.adaptive_target >= 0:
        return [*_DEFAULT_CHAIN, "adaptive_p"]
    return None


def _window(window: int | None, context_length: int) -> int:
    """Unset and -1 are all of prompt and answer."""
    return context_length if window is None or window < 0 else window


def _bias(bias: float) -> float | bool:
    """`false` bans a token; JSON has no infinity."""
    if math.isinf(bias):
        return False if bias < 0 else 1e9
    return bias


def _check(spec: SamplingSpec) -> None:
    for name, value in spec.given().items():
        if name not in HONOURED and value:
            raise UnsupportedField(f"llama.cpp does not honour '{name}'.", field=name, remedy="Leave it out.")
        # An infinite or undefined number would be written as null, which llama.cpp takes for its own default.
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidField(f"'{name}' must be a finite number.", field=name)
    if any(math.isnan(bias) for bias in (spec.logit_bias or {}).values()):
        raise InvalidField("A logit bias must be a number.", field="logit_bias")
    if spec.dry_sequence_breakers == ():
        raise InvalidField("'dry_sequence_breakers' must not be empty.", field="dry_sequence_breakers")
    if spec.mirostat not in (None, 0, 1, 2):
        raise InvalidField("'mirostat' must be 0, 1 or 2.", field="mirostat")
    for stage in spec.samplers or ():
        if stage not in _STAGES:
            raise UnsupportedField(
                f"llama.cpp has no sampling stage '{stage}'.",
                field="samplers",
                remedy=f"Use some of {', '.join(sorted(_STAGES))}.",
            )
    if spec.repetition_penalty is not None and spec.repetition_penalty <= 0:
        raise InvalidField("'repetition_penalty' must be greater than 0.", field="repetition_penalty")
