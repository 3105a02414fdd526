"""How answers are sampled where the request leaves it open, as the settings have it. Knows no model and no request."""

from __future__ import annotations

import math

import msgspec

from dragoman.config import Settings
from dragoman.core.errors import EngineFailure
from dragoman.core.sampling import SamplingSpec
from dragoman.service.prepare import AnswerLimits

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, math.inf),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "typical_p": (0, 1),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "repetition_penalty": (math.ulp(0), math.inf),
    "penalty_window": (-1, math.inf),
    "dynatemp_range": (0, math.inf),
    "dry_multiplier": (0, math.inf),
    "dry_base": (1, math.inf),
    "dry_allowed_length": (0, math.inf),
    "dry_penalty_window": (-1, math.inf),
    "mirostat": (0, 2),
}


def answer_limits(settings: Settings) -> AnswerLimits:
    """The rules for all answers. Raises EngineFailure naming a flag whose value no engine could use."""
    answer = settings.answer
    return AnswerLimits(
        default_max_tokens=answer.default_max_tokens,
        strict_max_tokens=answer.strict_max_tokens,
        grammar_degrade=answer.grammar_degrade,
        sampling=_sampling(settings),
    )


def _sampling(settings: Settings) -> SamplingSpec:
    groups = (settings.answer, settings.sampling)
    found = {
        name: value
        for group in groups
        for name in SamplingSpec.__struct_fields__
        if (value := getattr(group, name, None)) is not None
    }
    for name, value in found.items():
        low, high = _RANGES.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            flag = f"--{name.replace('_', '-')}"
            raise EngineFailure(f"{flag} cannot be {value}.", remedy=f"Leave {flag} out for requests to say it.")
    return msgspec.convert(found, SamplingSpec)
