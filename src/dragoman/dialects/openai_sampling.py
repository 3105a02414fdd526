"""Sampling fields of the OpenAI wires with their aliases and ranges -> SamplingSpec. Knows no endpoint.

Beside OpenAI's own fields the spellings of mlx_lm.server, vLLM and llama-server are read, since their clients speak
this wire too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.sampling import SamplingSpec

_SEEDS = 1 << 64
_BIAS_LIMIT = 100.0
_INT_MAX = (1 << 31) - 1  # engines hold counts and token ids in 32 bits
_TOKEN_DIGITS = len(str(_INT_MAX))
_HLG_WIDTH = 4.0
"""Nats; the width where a request asks for the curve without one (mlx-bun's default)."""


class HlgFields(msgspec.Struct, kw_only=True):
    """`hlg`: the HLG curve, which takes the place of the filters. Given, it is on unless `enabled` is false."""

    enabled: bool | None = None
    width: float | None = None
    shoulder: float | None = None
    toe: float | None = None
    pivot_offset: float | None = None


class SamplingFields(msgspec.Struct, kw_only=True):
    """Sampling fields as they stand on the wire. Null means absent everywhere."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    typ_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    repetition_context_size: int | None = None
    presence_context_size: int | None = None
    frequency_context_size: int | None = None
    repeat_last_n: int | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    adaptive_target: float | None = None
    adaptive_decay: float | None = None
    min_keep: int | None = None
    min_tokens: int | None = None
    samplers: list[str] | None = None
    seed: int | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool | None = None
    hlg: HlgFields | bool | None = None
    hlg_width: float | None = None
    hlg_shoulder: float | None = None
    hlg_toe: float | None = None
    hlg_pivot_offset: float | None = None


# Fields whose wire name is the core name: lowest and highest value, None for no bound.
_RANGES: dict[str, tuple[float | None, float | None]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "top_n_sigma": (None, None),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "dynatemp_range": (0, None),
    "dynatemp_exponent": (0, None),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "dry_multiplier": (0, None),
    "dry_base": (0, None),
    "dry_allowed_length": (0, _INT_MAX),
    "mirostat": (0, 2),
    "mirostat_tau": (0, None),
    "mirostat_eta": (0, None),
    "adaptive_target": (None, None),
    "adaptive_decay": (0, 0.99),
    "min_keep": (0, _INT_MAX),
    "min_tokens": (0, _INT_MAX),
}


def read_sampling(fields: SamplingFields) -> SamplingSpec:
    """The spec. Raises InvalidField for a value outside its range, UnsupportedField for windows that differ."""
    values: dict[str, Any] = {name: ranged(fields, name, *bounds) for name, bounds in _RANGES.items()}
    breakers = fields.dry_sequence_breakers
    samplers = fields.samplers
    return SamplingSpec(
        **values,
        top_k=_top_k(fields),
        typical_p=_first(ranged(fields, "typical_p", 0, 1), ranged(fields, "typ_p", 0, 1)),
        repetition_penalty=_repetition_penalty(fields),
        penalty_window=_penalty_window(fields),
        dry_penalty_window=ranged(fields, "dry_penalty_last_n", -1, _INT_MAX),
        dry_sequence_breakers=None if breakers is None else tuple(breakers),
        samplers=None if samplers is None else tuple(samplers),
        seed=read_seed(fields.seed),
        logit_bias=read_logit_bias(fields.logit_bias),
        ignore_eos=fields.ignore_eos,
        **_hlg(fields),
    )


def ranged(fields: msgspec.Struct, name: str, low: float | None, high: float | None) -> Any:
    """The value of a number field, or None when absent. Raises InvalidField when it is outside low … high."""
    value = getattr(fields, name)
    if value is None:
        return None
    if low is not None and value < low:
        raise InvalidField(f"Invalid '{name}': {value} is below the minimum of {low}.", field=name)
    if high is not None and value > high:
        raise InvalidField(f"Invalid '{name}': {value} is above the maximum of {high}.", field=name)
    return value


def read_seed(seed: int | None) -> int | None:
    """An unsigned 64-bit seed. -1 asks for a random one, as in llama-server; other negative ones wrap."""
    if seed is None or seed == -1:
        return None
    if not -(_SEEDS >> 1) <= seed < _SEEDS:
        raise InvalidField("Invalid 'seed': it must fit into 64 bits.", field="seed")
    return seed % _SEEDS


def read_logit_bias(bias: dict[str, float] | None) -> dict[int, float] | None:
    """Token id -> addend. Raises InvalidField for a key that is no token id or an addend beyond -100 … 100."""
    if bias is None:
        return None
    return {_token_id(key): _addend(key, value) for key, value in bias.items()}


def _token_id(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= _TOKEN_DIGITS):
        raise InvalidField(
            f"Invalid 'logit_bias': the key '{key[:40]}' is not a token id.", field=f"logit_bias.{key[:40]}"
        )
    return int(key)


def _addend(key: str, value: float) -> float:
    if not -_BIAS_LIMIT <= value <= _BIAS_LIMIT:
        raise InvalidField(f"Invalid 'logit_bias': {value} is not between -100 and 100.", field=f"logit_bias.{key}")
    return value


def _top_k(fields: SamplingFields) -> int | None:
    value = ranged(fields, "top_k", -1, _INT_MAX)
    return 0 if value == -1 else value  # vLLM writes -1 for "off"


def _repetition_penalty(fields: SamplingFields) -> float | None:
    value = _first(ranged(fields, "repetition_penalty", 0, None), ranged(fields, "repeat_penalty", 0, None))
    return 1.0 if value == 0 else value  # mlx_lm.server writes 0 for "off"


def _penalty_window(fields: SamplingFields) -> int | None:
    """One window for all three penalties. The mlx-lm sizes write 0 for all tokens, `repeat_last_n` writes -1."""
    found: dict[str, int] = {}
    for name in ("repetition_context_size", "presence_context_size", "frequency_context_size"):
        size = ranged(fields, name, 0, _INT_MAX)
        if size is not None:
            found[name] = size or -1
    last_n = ranged(fields, "repeat_last_n", -1, _INT_MAX)
    if last_n is not None:
        found["repeat_last_n"] = last_n
    if len(set(found.values())) > 1:
        name = next(reversed(found))
        raise UnsupportedField(
            f"The penalty windows {', '.join(found)} differ, but this server has one window for all penalties.",
            field=name,
            remedy="Give them the same value.",
        )
    return next(iter(found.values()), None)


def _hlg(fields: SamplingFields) -> dict[str, Any]:
    """The curve, from the object or from flat names; the object wins. Raises InvalidField for a negative width."""
    asked = HlgFields(enabled=fields.hlg) if isinstance(fields.hlg, bool) else fields.hlg
    if asked is not None and asked.enabled is False:
        return {}
    asked = asked or HlgFields(enabled=False)
    shape = {
        "hlg_width": _first(asked.width, fields.hlg_width, None if asked.enabled is False else _HLG_WIDTH),
        "hlg_shoulder": _first(asked.shoulder, fields.hlg_shoulder),
        "hlg_toe": _first(asked.toe, fields.hlg_toe),
        "hlg_offset": _first(asked.pivot_offset, fields.hlg_pivot_offset),
    }
    width = shape["hlg_width"]
    if width is not None and width < 0:
        name = "hlg.width" if asked.width is not None else "hlg_width"
        raise InvalidField(f"Invalid '{name}': {width} is below the minimum of 0.", field=name)
    return {name: value for name, value in shape.items() if value is not None}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
