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
from dragoman.sampling.breakers import Breakers
from dragoman.sampling.filters import softmax
from dragoman.sampling.noise import gumbel, step_keys
from dragoman.sampling.penalties import leaving_index, window_counts
from dragoman.sampling.reference import Moment, RowSampler, log_probabilities

NONE: frozenset[int] = frozenset()
ROW = np.log(np.array([0.5, 0.2, 0.15, 0.1, 0.05], dtype=np.float32))
START = Moment([], 0)
rows = arrays(np.float32, 24, elements=st.floats(-20, 20, width=32))


def processed(
    row: np.ndarray, spec: SamplingSpec, history: list[int], step: int = 0, stops: frozenset[int] = NONE
) -> np.ndarray:
    return RowSampler(spec, stops, len(row)).processed(row, Moment(history, step))


def distribution(row: np.ndarray, spec: SamplingSpec, step: int = 0) -> np.ndarray:
    return RowSampler(spec, NONE, len(row)).distribution(row, Moment([], step))


def draw(row: np.ndarray, spec: SamplingSpec, step: int) -> int:
    return RowSampler(spec, NONE, len(row)).draw(row, Moment([], step))


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
    sampler = RowSampler(spec, NONE, 5)
    drawn = np.bincount([sampler.draw(ROW, Moment([], step)) for step in range(1500)], minlength=5) / 1500

    assert np.abs(drawn - distribution(ROW, spec)).max() < 0.05


def test_repetition_divides_positive_and_multiplies_negative_logits() -> None:
    row = np.array([2.0, -2.0, 2.0, -2.0], dtype=np.float32)

    out = processed(row, SamplingSpec(repetition_penalty=2.0), [0, 1, 1])

    assert out.tolist() == [1.0, -4.0, 2.0, -2.0]


def test_presence_counts_once_and_frequency_every_time() -> None:
    row = np.zeros(3, dtype=np.float32)
    spec = SamplingSpec(presence_penalty=0.5, frequency_penalty=0.25)

    assert processed(row, spec, [1, 1, 2]).tolist() == [0.0, -1.0, -0.75]


@pytest.mark.parametrize(("window", "seen"), [(-1, [0, 1, 2, 3]), (0, []), (1, [3]), (2, [2, 3]), (64, [0, 1, 2, 3])])
def test_the_window_slides_over_prompt_and_answer(window: int, seen: list[int]) -> None:
    spec = SamplingSpec(presence_penalty=1.0, penalty_window=window)

    out = processed(np.zeros(5, dtype=np.float32), spec, [0, 1, 2, 3], 2)

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

    out = processed(np.zeros(3, dtype=np.float32), spec, [])

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


def test_a_chain_runs_in_the_order_given() -> None:
    early = SamplingSpec(temperature=4.0, top_p=0.6, samplers=("temperature", "top_p"))
    late = SamplingSpec(temperature=4.0, top_p=0.6, samplers=("top_p", "temperature"))

    # At temperature 4 the row is nearly flat, and it takes three candidates to reach 0.6.
    assert np.flatnonzero(distribution(ROW, early)).tolist() == [0, 1, 2]
    assert np.flatnonzero(distribution(ROW, late)).tolist() == [0, 1]


def test_a_stage_can_run_twice() -> None:
    hot = SamplingSpec(temperature=2.0, samplers=("temperature", "temperature"))

    assert distribution(ROW, hot) == pytest.approx(softmax(ROW / 4.0))


def test_penalties_behind_a_filter_are_not_reported() -> None:
    spec = SamplingSpec(presence_penalty=9.0, top_k=2, samplers=("top_k", "penalties"))
    sampler, moment = RowSampler(spec, NONE, 5), Moment([0], 0)

    row = sampler.processed(ROW, moment)

    assert row.tolist() == ROW.tolist()
    assert np.flatnonzero(sampler.distribution(row, moment)).tolist() == [0, 1]
    assert np.argmax(sampler.distribution(row, moment)) == 1


def test_an_empty_chain_is_the_plain_distribution() -> None:
    spec = SamplingSpec(temperature=0.0, top_k=1, samplers=())

    assert distribution(ROW, spec) == pytest.approx(softmax(ROW))


def test_xtc_happens_as_often_as_asked() -> None:
    spec = SamplingSpec(xtc_probability=0.3, xtc_threshold=0.1, seed=4)

    sampler = RowSampler(spec, NONE, 5)

    happened = [sampler.distribution(ROW, Moment([], step))[0] == 0 for step in range(1000)]

    assert abs(np.mean(happened) - 0.3) < 0.05
    assert not any(
        distribution(ROW, SamplingSpec(xtc_probability=0.3, xtc_threshold=0.6), s)[0] == 0 for s in range(50)
    )


def test_dry_is_reported_and_breakers_are_resolved() -> None:
    spec = SamplingSpec(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=2, dry_sequence_breakers=("x",))
    asked: list[tuple[str, ...]] = []

    def resolve(words: tuple[str, ...]) -> Breakers:
        asked.append(words)
        return Breakers(frozenset({4}))

    sampler = RowSampler(spec, NONE, 5, resolve)

    assert (ROW - sampler.processed(ROW, Moment([1, 2, 3, 0, 1, 2], 0))).tolist() == [0, 0, 0, 1, 0]
    assert (ROW - sampler.processed(ROW, Moment([1, 2, 3, 0, 1, 4, 2], 0))).tolist() == [0, 0, 0, 0, 0]
    assert asked == [("x",)]


def test_a_mask_counts_before_filters_and_is_reported() -> None:
    spec = SamplingSpec(top_k=2, seed=1)
    sampler = RowSampler(spec, NONE, 5)

    row = sampler.processed(ROW, START, np.array([False, True, False, True, True]))

    assert row.tolist() == [-np.inf, ROW[1], -np.inf, ROW[3], ROW[4]]
    assert np.flatnonzero(sampler.distribution(row, START)).tolist() == [1, 3]


def test_a_row_with_no_candidate_draws_without_failing() -> None:
    row = np.full(5, -np.inf, dtype=np.float32)

    assert draw(row, SamplingSpec(seed=1), 0) == 0
    assert draw(row, SamplingSpec(mirostat=2, seed=1), 0) == 0


@given(rows, st.integers(0, 50))
def test_leaving_hopeless_tokens_out_of_the_draw_changes_nothing(row: np.ndarray, step: int) -> None:
    spread = row * np.float32(3)
    noise = gumbel(step_keys(7, step, 1)[0], np.arange(len(row)))

    assert draw(spread, SamplingSpec(seed=7), step) == int(np.argmax(spread - spread.max() + noise))
