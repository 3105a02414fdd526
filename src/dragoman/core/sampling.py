"""How the next token is drawn. One spec serves every dialect and engine; it does not draw anything itself."""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct

# The value at which a stage does nothing (definitions of the stages).
_NEUTRAL: dict[str, float] = {
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "xtc_probability": 0.0,
    "dynatemp_range": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "mirostat": 0,
    "min_keep": 0,
    "min_tokens": 0,
    "ignore_eos": False,
    "hlg_width": math.inf,
}
# Stages that any value up to this one switches off.
_OFF_UP_TO: dict[str, float] = {"top_k": 0, "top_n_sigma": 0.0, "adaptive_target": -1e-9}
# Fields that only shape a stage another field switches on.
_SHAPES: dict[str, tuple[str, ...]] = {
    "xtc_probability": ("xtc_threshold",),
    "dynatemp_range": ("dynatemp_exponent",),
    "dry_multiplier": ("dry_base", "dry_allowed_length", "dry_penalty_window", "dry_sequence_breakers"),
    "mirostat": ("mirostat_tau", "mirostat_eta"),
    "adaptive_target": ("adaptive_decay",),
    "hlg_width": ("hlg_shoulder", "hlg_toe", "hlg_offset"),
}


class SamplingSpec(Struct, frozen=True, kw_only=True):
    """Sampling fields. None means unset: the server default, the model's generation config, then the engine's
    neutral value apply, in that order.

    Names follow the field's common spelling; windows count tokens, `seed` is an unsigned 64-bit integer.
    `temperature` 0 is greedy. Penalties are those of the OpenAI reference (presence, frequency: added to logits)
    and of the CTRL paper (repetition: divides or multiplies), over the last `penalty_window` tokens of prompt and
    answer (-1: all, 0: none). `logit_bias` maps token id to an addend, -inf bans the token.

    `hlg_width` switches the HLG curve on, which takes the place of the filters: logits within `hlg_width` of the pivot
    (`hlg_offset` below the best) are scaled by the temperature, those above and below are bent logarithmically with
    `hlg_shoulder` and `hlg_toe`.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    penalty_window: int | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_window: int | None = None
    dry_sequence_breakers: tuple[str, ...] | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    adaptive_target: float | None = None
    adaptive_decay: float | None = None
    min_keep: int | None = None
    min_tokens: int | None = None
    samplers: tuple[str, ...] | None = None
    seed: int | None = None
    logit_bias: dict[int, float] | None = None
    ignore_eos: bool | None = None
    hlg_width: float | None = None
    hlg_shoulder: float | None = None
    hlg_toe: float | None = None
    hlg_offset: float | None = None

    def over(self, defaults: SamplingSpec) -> SamplingSpec:
        """This spec with its unset fields taken from `defaults`."""
        missing = {name: value for name, value in defaults.given().items() if getattr(self, name) is None}
        return msgspec.structs.replace(self, **missing) if missing else self

    def given(self) -> dict[str, object]:
        """The fields that are set, by name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}

    def active(self) -> set[str]:
        """Names of the fields that change the draw: set, not at their neutral value, and not the mere shape of a stage
        that is off. Clients often send every field they know, most of them neutral."""
        given = self.given()
        idle = {name for name, value in given.items() if _is_neutral(name, value)}
        idle |= {shape for stage, shapes in _SHAPES.items() if stage not in given or stage in idle for shape in shapes}
        if not {"repetition_penalty", "presence_penalty", "frequency_penalty"} & (given.keys() - idle):
            idle.add("penalty_window")
        return given.keys() - idle


def _is_neutral(name: str, value: object) -> bool:
    if name in _OFF_UP_TO:
        return isinstance(value, int | float) and value <= _OFF_UP_TO[name]
    return value == _NEUTRAL.get(name) if name in _NEUTRAL else value == {}
