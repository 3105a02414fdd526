"""The reference sampler against worked examples and against the definitions of its stages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.core.errors import InvalidField
from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.bias import bias_row, check_bias
from dragoman.sampling.penalties import leaving_index, window_counts
from dragoman.sampling.reference import (
    distribution,
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    log_probabilities,
    processed,
    softmax,
)

NONE: frozenset[int] = frozenset()
ROW = np.log(np.array([0.5, 0.2, 0.15, 0.1, 0.05], dtype=np.float32))
rows = arrays(np.float32, 24, elements=st.floats(-20, 20, width=32))


def kept(row: np.ndarray) -> list[int]:
    return np.flatnonzero(np.isfinite(row)).tolist()


def test_top_k_keeps_the_best() -> None:
    assert kept(keep_top_k(ROW, 2)) == [0, 1]
    assert kept(keep_top_k(ROW, 0)) == [0, 1, 2, 3, 4]
    assert kept(keep_top_k(ROW, 9)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("p", "count"), [(0.3, 1), (0.5, 1), (0.6, 2), (0.69, 2), (0.8, 3), (0.94, 4), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(p: float, count: int) -> None:
    assert len(kept(keep_top_p(ROW, p))) == count


@pytest.mark.parametrize(("p", "count"), [(0.0, 5), (0.09, 5), (0.15, 4), (0.35, 2), (0.5, 1), (1.0, 1)])
def test_min_p_is_relative_to_the_best(p: float, count: int) -> None:
    assert len(kept(keep_min_p(ROW, p))) == count


def test_min_keep_overrules_filters() -> None:
    assert len(kept(keep_top_p(ROW, 0.1, 3))) == 3
    assert len(kept(keep_min_p(ROW, 0.9, 4))) == 4


def test_filters_come_before_temperature() -> None:
    hot = SamplingSpec(temperature=100.0, top_p=0.6)

    assert np.flatnonzero(distribution(ROW, hot)).tolist() == [0, 1]


@given(rows, st.floats(0.05, 5), st.integers(0, 30), st.floats(0.01, 1), st.floats(0, 1))
def test_a_distribution_sums_to_one_and_keeps_the_best(
    row: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    spec = SamplingSpec(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)

    weights = distribution(row, spec)

    assert weights.sum() == pytest.approx(1)
    assert weights[np.argmax(row)] > 0
    assert weights[draw(row, spec, 3)] > 0


def test_draws_follow_the_distribution() -> None:
    spec = SamplingSpec(temperature=0.8, top_p=0.9, seed=99)
    drawn = np.bincount([draw(ROW, spec, step) for step in range(1500)], minlength=5) / 1500

    assert np.abs(drawn - distribution(ROW, spec)).max() < 0.05


def test_repetition_divides_positive_and_multiplies_negative_logits() -> None:
    row = np.array([2.0, -2.0, 2.0, -2.0], dtype=np.float32)

    out = processed(row, SamplingSpec(repetition_penalty=2.0), [0, 1, 1], 0, NONE)

    assert out.tolist() == [1.0, -4.0, 2.0, -2.0]


def test_presence_counts_once_and_frequency_every_time() -> None:
    row = np.zeros(3, dtype=np.float32)
    spec = SamplingSpec(presence_penalty=0.5, frequency_penalty=0.25)

    assert processed(row, spec, [1, 1, 2], 0, NONE).tolist() == [0.0, -1.0, -0.75]


@pytest.mark.parametrize(("window", "seen"), [(-1, [0, 1, 2, 3]), (0, []), (1, [3]), (2, [2, 3]), (64, [0, 1, 2, 3])])
def test_the_window_slides_over_prompt_and_answer(window: int, seen: list[int]) -> None:
    spec = SamplingSpec(presence_penalty=1.0, penalty_window=window)

    out = processed(np.zeros(5, dtype=np.float32), spec, [0, 1, 2, 3], 2, NONE)

    assert np.flatnonzero(out < 0).tolist() == seen


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(-1, 8))
def test_counts_kept_step_by_step_are_counts_of_the_window(tokens: list[int], window: int) -> None:
    counts = np.zeros(6, dtype=np.int32)
    for length, token in enumerate(tokens, start=1):
        if window != 0:
            counts[token] += 1
        gone = leaving_index(length, window)
        if gone is not None:
            counts[tokens[gone]] -= 1

    assert counts.tolist() == window_counts(tokens, window, 6).tolist()


def test_stop_tokens_are_banned_until_min_tokens() -> None:
    row = np.array([0.0, 9.0, 1.0], dtype=np.float32)
    spec = SamplingSpec(temperature=0.0, min_tokens=2)

    taken = [draw(processed(row, spec, [0], step, frozenset({1})), spec, step) for step in range(4)]

    assert taken == [2, 2, 1, 1]


def test_ignore_eos_bans_stop_tokens_for_good() -> None:
    spec = SamplingSpec(temperature=0.0, ignore_eos=True, logit_bias={1: 50.0})

    assert draw(processed(np.array([0.0, 9.0], dtype=np.float32), spec, [], 9, frozenset({1})), spec, 9) == 0


def test_minus_infinity_bans() -> None:
    spec = SamplingSpec(logit_bias={0: -np.inf, 2: 1.5})

    out = processed(np.zeros(3, dtype=np.float32), spec, [], 0, NONE)

    assert out.tolist() == [-np.inf, 0.0, 1.5]
    assert bias_row(SamplingSpec(), frozenset({1}), 3) is None


@pytest.mark.parametrize("bias", [{3: 1.0}, {-1: 1.0}, {0: float("nan")}, {0: float("inf")}])
def test_a_bias_that_cannot_be_applied_is_refused(bias: dict[int, float]) -> None:
    with pytest.raises(InvalidField) as caught:
        check_bias(SamplingSpec(logit_bias=bias), 3)
    assert caught.value.field == "logit_bias"


@given(rows)
def test_log_probabilities_are_logarithms_of_softmax(row: np.ndarray) -> None:
    assert np.allclose(np.exp(log_probabilities(row)), softmax(row))
