"""Specs become vectors with neutral values, whatever the size of the wire's numbers."""

from __future__ import annotations

from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.vectors import HONOURED, vectors_of


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


def test_honoured_names_are_fields_of_the_spec() -> None:
    assert set(SamplingSpec.__struct_fields__) >= HONOURED
