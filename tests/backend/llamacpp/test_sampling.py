"""Every sampling field in llama.cpp's spelling, with neutral values for what is off."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.backend.llamacpp.sampling import HONOURED, fold_seed, native_sampling
from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.sampling import SamplingSpec

NEUTRAL: dict[str, Any] = {
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
    "repeat_penalty": 1.0,
    "repeat_last_n": 512,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 512,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "min_keep": 0,
    "ignore_eos": False,
}

SPELLED = {
    "repetition_penalty": ("repeat_penalty", 1.3, 1.3),
    "penalty_window": ("repeat_last_n", 7, 7),
    "dry_penalty_window": ("dry_penalty_last_n", 9, 9),
    "dry_sequence_breakers": ("dry_sequence_breakers", ("\n", "x"), ["\n", "x"]),
    "samplers": ("samplers", ("top_k", "temperature"), ["top_k", "temperature"]),
    "seed": ("seed", 42, 42),
    "logit_bias": ("logit_bias", {5: 1.5, 6: -math.inf}, [[5, 1.5], [6, False]]),
    "ignore_eos": ("ignore_eos", True, True),
}


def test_unset_means_off_not_the_servers_default() -> None:
    assert native_sampling(SamplingSpec(), 512) == NEUTRAL


@pytest.mark.parametrize("name", sorted(HONOURED - {"min_tokens"}))
def test_every_honoured_field_changes_exactly_its_own(name: str) -> None:
    wire, given_value, sent = SPELLED.get(name, (name, 0.5, 0.5))
    if name in ("top_k", "mirostat", "min_keep", "dry_allowed_length"):
        given_value = sent = 1
    made = native_sampling(SamplingSpec(**{name: given_value}), 512)
    assert made[wire] == sent
    changed = {key for key in made if made[key] != NEUTRAL.get(key)}
    assert changed == ({wire, "samplers"} if name == "adaptive_target" else {wire})


def test_every_field_is_either_honoured_or_refused() -> None:
    for name in set(SamplingSpec.__struct_fields__) - HONOURED:
        with pytest.raises(UnsupportedField) as caught:
            native_sampling(SamplingSpec(**{name: 3}), 512)
        assert caught.value.field == name


def test_windows_of_minus_one_are_the_context() -> None:
    made = native_sampling(SamplingSpec(penalty_window=-1, dry_penalty_window=-1), 4096)
    assert (made["repeat_last_n"], made["dry_penalty_last_n"]) == (4096, 4096)
    assert native_sampling(SamplingSpec(penalty_window=0), 4096)["repeat_last_n"] == 0


def test_greedy_stays_greedy() -> None:
    assert native_sampling(SamplingSpec(temperature=0.0), 512)["temperature"] == 0.0


def test_adaptive_sampling_is_put_into_the_chain_unless_the_chain_is_given() -> None:
    assert native_sampling(SamplingSpec(adaptive_target=0.3), 512)["samplers"][-1] == "adaptive_p"
    assert native_sampling(SamplingSpec(adaptive_target=0.3, samplers=("top_k",)), 512)["samplers"] == ["top_k"]
    assert "samplers" not in native_sampling(SamplingSpec(adaptive_target=-1.0), 512)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_json_cannot_carry_are_refused(value: float) -> None:
    with pytest.raises(InvalidField) as caught:
        native_sampling(SamplingSpec(top_p=value), 512)
    assert caught.value.field == "top_p"


def test_what_llama_cpp_would_refuse_is_named() -> None:
    for spec, field in (
        (SamplingSpec(repetition_penalty=0.0), "repetition_penalty"),
        (SamplingSpec(dry_sequence_breakers=()), "dry_sequence_breakers"),
        (SamplingSpec(mirostat=3), "mirostat"),
        (SamplingSpec(logit_bias={1: math.nan}), "logit_bias"),
    ):
        with pytest.raises(InvalidField) as caught:
            native_sampling(spec, 512)
        assert caught.value.field == field


def test_a_stage_llama_cpp_would_drop_from_the_chain_is_refused() -> None:
    with pytest.raises(UnsupportedField) as caught:
        native_sampling(SamplingSpec(samplers=("top_k", "guess")), 512)
    assert caught.value.field == "samplers"


@given(st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_seeds_fit_and_are_never_the_random_one(seed: int, part: int) -> None:
    folded = fold_seed(seed, part)
    assert 0 <= folded < 2**32 - 1
    assert folded == fold_seed(seed, part)


@given(st.integers(0, 2**32 - 2))
def test_small_seeds_stay_what_they_are(seed: int) -> None:
    assert fold_seed(seed) == seed


def test_the_upper_half_of_a_seed_counts() -> None:
    assert fold_seed(1 << 40) != fold_seed(1 << 41) != fold_seed(0)
