"""Specs become vectors with neutral values, whatever the size of the wire's numbers."""

from __future__ import annotations

from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.vectors import HONOURED, HONOURED_WITH_BREAKERS, vectors_of


def test_unset_fields_are_neutral() -> None:
    vectors = vectors_of([SamplingSpec()], 100)

    assert vectors.temperature.tolist() == [1.0]
    assert not vectors.greedy.any()
    assert not vectors.filtered.any()
    assert not vectors.penalised.any()
    assert vectors.min_tokens.tolist() == [0]
    assert vectors.window.tolist() == [64]


def test_one_candidate_is_greedy() -> None:
    specs = [
        SamplingSpec(temperature=0.0),
        SamplingSpec(temperature=-1.0),
        SamplingSpec(top_k=1),
        SamplingSpec(top_p=0.0),
        SamplingSpec(top_k=1, min_keep=5),
        SamplingSpec(top_k=2),
    ]

    assert vectors_of(specs, 100).greedy.tolist() == [True, True, True, True, False, False]


def test_off_values_cut_nothing() -> None:
    specs = [SamplingSpec(top_k=-1), SamplingSpec(top_k=100), SamplingSpec(top_k=10**12), SamplingSpec(top_p=1.0)]

    assert not vectors_of(specs, 100).filtered.any()


def test_penalties_without_window_are_off() -> None:
    specs = [
        SamplingSpec(repetition_penalty=1.2),
        SamplingSpec(repetition_penalty=1.2, penalty_window=0),
        SamplingSpec(presence_penalty=-0.5, penalty_window=-1),
        SamplingSpec(repetition_penalty=1.0, frequency_penalty=0.0),
    ]

    assert vectors_of(specs, 100).penalised.tolist() == [True, False, True, False]


def test_large_numbers_are_held() -> None:
    vectors = vectors_of([SamplingSpec(seed=2**64 - 1, penalty_window=10**15, min_tokens=10**15, min_keep=10**15)], 100)

    assert int(vectors.seed[0]) == 2**64 - 1
    assert vectors.window.tolist() == [2**31 - 1]
    assert vectors.min_tokens.tolist() == [2**31 - 1]
    assert vectors.min_keep.tolist() == [100]


def test_every_field_is_honoured_but_dry_only_with_breakers() -> None:
    assert set(SamplingSpec.__struct_fields__) == HONOURED_WITH_BREAKERS
    assert set(HONOURED_WITH_BREAKERS - HONOURED) == {
        name for name in SamplingSpec.__struct_fields__ if name.startswith("dry_")
    }


def test_stages_outside_the_chain_are_neutral() -> None:
    spec = SamplingSpec(
        temperature=0.0, top_k=1, top_p=0.5, min_p=0.1, repetition_penalty=1.5, xtc_probability=1.0, samplers=("top_p",)
    )

    vectors = vectors_of([spec], 100)

    assert (vectors.temperature[0], vectors.top_k[0], vectors.min_p[0], vectors.xtc_probability[0]) == (
        1.0,
        0,
        0.0,
        0.0,
    )
    assert vectors.top_p.tolist() == [0.5]
    assert not vectors.greedy[0]
    assert not vectors.penalised[0]
    assert not vectors.special[0]


def test_the_curve_replaces_filters_and_dynamic_temperature() -> None:
    spec = SamplingSpec(temperature=0.7, hlg_width=4.0, top_k=5, top_p=0.5, dynatemp_range=0.3, presence_penalty=1.0)

    vectors = vectors_of([spec], 100)

    assert not vectors.filtered[0]
    assert vectors.penalised[0]
    assert vectors.dynatemp_range.tolist() == [0.0]
    assert (vectors.hlg_width[0], vectors.hlg_shoulder[0], vectors.hlg_toe[0], vectors.hlg_offset[0]) == (4, 4, 6, 6)


def test_only_rows_that_ask_are_special() -> None:
    specs = [
        SamplingSpec(temperature=0.5, top_k=40, top_p=0.9, typical_p=0.5, xtc_probability=0.5, dynatemp_range=0.2),
        SamplingSpec(mirostat=0, dry_multiplier=0.0, adaptive_target=-1.0),
        SamplingSpec(hlg_width=3.0),
        SamplingSpec(samplers=("top_k", "top_p", "temperature"), top_k=4, top_p=0.5),
        SamplingSpec(samplers=("temperature", "top_k"), top_k=4),
        SamplingSpec(mirostat=1),
        SamplingSpec(mirostat=2),
        SamplingSpec(dry_multiplier=0.8),
        SamplingSpec(adaptive_target=0.3),
        SamplingSpec(samplers=("temperature", "top_k"), top_k=4, temperature=0.5),
        SamplingSpec(samplers=("top_k", "top_k"), top_k=4),
        SamplingSpec(samplers=("top_k", "penalties"), top_k=4, presence_penalty=1.0),
    ]

    assert vectors_of(specs, 100).special.tolist() == [False] * 5 + [True] * 7
