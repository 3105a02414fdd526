"""Refuses sampling specs no sampler here can follow. Knows the vocabulary size, no engine."""

from __future__ import annotations

import math

from dragoman.core.errors import InvalidField
from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.bias import check_bias
from dragoman.sampling.chain import check_chain


def check_sampling(spec: SamplingSpec, vocab_size: int) -> None:
    """Raises InvalidField for numbers that cannot be used, UnsupportedField for stages that do not exist."""
    check_bias(spec, vocab_size)
    check_chain(spec)
    for name, value in spec.given().items():
        if isinstance(value, float) and not math.isfinite(value) and not (name == "hlg_width" and value == math.inf):
            raise InvalidField(f"'{name}' must be a finite number.", field=name)
    if spec.repetition_penalty is not None and spec.repetition_penalty <= 0:
        raise InvalidField("'repetition_penalty' must be greater than 0.", field="repetition_penalty")
    if spec.hlg_width is not None and spec.hlg_width < 0:
        raise InvalidField("'hlg_width' must be 0 or more.", field="hlg_width")
