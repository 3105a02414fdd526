"""Which sampling fields count."""

from __future__ import annotations

import math

import pytest

from dragoman.core.sampling import SamplingSpec

NEUTRAL = SamplingSpec(
    top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, top_n_sigma=-1.0, xtc_probability=0.0, xtc_threshold=0.1,
    dynatemp_range=0.0, dynatemp_exponent=1.0, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0,
    penalty_window=64, dry_multiplier=0.0, dry_base=1.75, dry_allowed_length=2, dry_penalty_window=64,
    dry_sequence_breakers=("\n",), mirostat=0, mirostat_tau=5.0, mirostat_eta=0.1, adaptive_target=-1.0,
    adaptive_decay=0.9, min_keep=0, min_tokens=0, logit_bias={}, ignore_eos=False,
    hlg_width=math.inf, hlg_shoulder=4.0, hlg_toe=6.0, hlg_offset=6.0,
)  # fmt: skip


def test_neutral_values_change_nothing() -> None:
    assert NEUTRAL.active() == set()
    assert SamplingSpec().active() == set()


@pytest.mark.parametrize(
    ("spec", "active"),
    [
        (SamplingSpec(temperature=0.0), {"temperature"}),
        (SamplingSpec(seed=0), {"seed"}),
        (SamplingSpec(top_k=1), {"top_k"}),
        (SamplingSpec(xtc_probability=0.5, xtc_threshold=0.1), {"xtc_probability", "xtc_threshold"}),
        (SamplingSpec(adaptive_target=0.0, adaptive_decay=0.5), {"adaptive_target", "adaptive_decay"}),
        (SamplingSpec(presence_penalty=0.1, penalty_window=5), {"presence_penalty", "penalty_window"}),
        (SamplingSpec(logit_bias={1: 0.0}), {"logit_bias"}),
        (SamplingSpec(samplers=()), {"samplers"}),
        (SamplingSpec(hlg_width=4.0, hlg_toe=6.0), {"hlg_width", "hlg_toe"}),
        (SamplingSpec(hlg_width=0.0), {"hlg_width"}),
        (SamplingSpec(hlg_toe=6.0), set()),
        (SamplingSpec(ignore_eos=True, min_tokens=1), {"ignore_eos", "min_tokens"}),
    ],
)
def test_what_counts(spec: SamplingSpec, active: set[str]) -> None:
    assert spec.active() == active


def test_over_fills_only_what_is_unset() -> None:
    spec = SamplingSpec(temperature=0.0, top_k=5).over(SamplingSpec(temperature=1.0, top_p=0.5))
    assert spec == SamplingSpec(temperature=0.0, top_k=5, top_p=0.5)
    assert spec.over(SamplingSpec()) is spec
