"""How the next token is drawn. One spec serves every dialect and engine; it does not draw anything itself."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class SamplingSpec(Struct, frozen=True, kw_only=True):
    """Sampling fields. None means unset: the server default, the model's generation config, then the engine's
    neutral value apply, in that order.

    Names follow the field's common spelling; windows count tokens, `seed` is an unsigned 64-bit integer.
    `temperature` 0 is greedy. Penalties are those of the OpenAI reference (presence, frequency: added to logits)
    and of the CTRL paper (repetition: divides or multiplies), over the last `penalty_window` tokens of prompt and
    answer (-1: all, 0: none). `logit_bias` maps token id to an addend, -inf bans the token.
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

    def over(self, defaults: SamplingSpec) -> SamplingSpec:
        """This spec with its unset fields taken from `defaults`."""
        missing = {name: value for name, value in defaults.given().items() if getattr(self, name) is None}
        return msgspec.structs.replace(self, **missing) if missing else self

    def given(self) -> dict[str, object]:
        """The fields that are set, by name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
