"""Mirostat and adaptive-p against their definitions and towards their targets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dragoman.core.sampling import SamplingSpec
from dragoman.sampling import adaptive, mirostat
from dragoman.sampling.adaptive import Average
from dragoman.sampling.filters import softmax
from dragoman.sampling.reference import Memory, Moment, RowSampler

SIZE = 400
ZIPF = (-1.2 * np.log(np.arange(1, SIZE + 1))).astype(np.float32)


def run(spec: SamplingSpec, steps: int, row: np.ndarray = ZIPF) -> list[int]:
    sampler = RowSampler(spec, frozenset(), len(row))
    return [sampler.draw(sampler.processed(row, Moment([], step)), Moment([], step)) for step in range(steps)]


def test_zipfs_exponent_is_recovered() -> None:
    assert mirostat.zipf_exponent(np.sort(softmax(ZIPF))[::-1][:100]) == pytest.approx(1.2, rel=1e-4)
    assert mirostat.zipf_exponent(np.array([1.0])) == 1.0


def test_version_1_keeps_as_many_ranks_as_the_paper_says() -> None:
    exponent, mu, epsilon = 1.2, 6.0, 0.2
    k = (epsilon * 2**mu / (1 - SIZE**-epsilon)) ** (1 / exponent)

    assert np.count_nonzero(mirostat.keep_by_rank(ZIPF, mu, SIZE)) == int(k)


@pytest.mark.parametrize("row", [np.zeros(9), np.array([5.0]), np.array([80.0, 0.0, 0.0]), np.array([0.0, 0.0])])
@pytest.mark.parametrize("mu", [-9.0, 0.0, 5.0, 1000.0])
def test_version_1_survives_odd_rows(row: np.ndarray, mu: float) -> None:
    assert mirostat.keep_by_rank(row.astype(np.float32), mu, 50_000)[np.argmax(row)]


def test_version_2_bounds_surprise() -> None:
    row = np.log(np.array([0.5, 0.25, 0.125, 0.125], dtype=np.float32))

    assert mirostat.keep_by_surprise(row, 2.5).tolist() == [True, True, False, False]
    assert mirostat.keep_by_surprise(row, 0.5).tolist() == [True, False, False, False]


def test_mu_moves_against_the_error() -> None:
    row = np.log(np.array([0.5, 0.25, 0.25], dtype=np.float32))

    assert mirostat.next_mu(10.0, row, 1, 3.0, 0.1) == pytest.approx(10.0 - 0.1 * (2.0 - 3.0))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("tau", [2.0, 4.0])
def test_mirostat_reaches_its_target(version: int, tau: float) -> None:
    drawn = run(SamplingSpec(mirostat=version, mirostat_tau=tau, mirostat_eta=0.1, seed=3), 800)
    surprise = -np.log2(softmax(ZIPF))[drawn[200:]]

    # The target is that of the kept candidates, whose surprise is a little lower than within all.
    assert abs(surprise.mean() - tau) < 1.2
    assert len(set(drawn)) > 3


def test_adaptive_logits_peak_at_the_aim() -> None:
    weights = np.array([0.6, 0.3, 0.1])

    logits = adaptive.adapted(weights, 0.3, adaptive.first_average(0.3, 0.9))

    assert logits == pytest.approx([5 - 10 * 1 / 2, 5.0, 5 - 10 * (4 / 9) / (5 / 3)], abs=1e-5)


def test_the_aim_compensates_for_the_past() -> None:
    weights = np.array([0.6, 0.3, 0.1])

    assert np.argmax(adaptive.adapted(weights, 0.3, Average(0.5, 1.0))) == 2
    assert np.argmax(adaptive.adapted(weights, 0.3, Average(0.0, 1.0))) == 0


def test_the_average_decays_and_decay_is_bounded() -> None:
    average = adaptive.first_average(0.5, 0.9)

    assert (average.total, average.weight) == pytest.approx((5.0, 10.0))
    after = average.with_draw(0.1, 0.9)
    assert (after.total, after.weight) == pytest.approx((4.6, 10.0))
    assert adaptive.first_average(0.5, 2.0).weight == pytest.approx(100.0)


@pytest.mark.parametrize("target", [0.2, 0.4])
def test_adaptive_p_steers_the_average(target: float) -> None:
    row = np.log(np.array([0.5, 0.2, 0.12, 0.1, 0.05, 0.03], dtype=np.float32))

    drawn = run(SamplingSpec(adaptive_target=target, adaptive_decay=0.9, seed=1), 400, row)

    assert abs(softmax(row)[drawn].mean() - target) < 0.06


def test_memory_can_be_handed_on() -> None:
    spec = SamplingSpec(mirostat=2, mirostat_tau=3.0, seed=5)
    whole = run(spec, 12)
    sampler, drawn = RowSampler(spec, frozenset(), SIZE), list[int]()
    for step in range(12):
        sampler = RowSampler(spec, frozenset(), SIZE, memory=sampler.memory)
        drawn.append(sampler.draw(ZIPF, Moment([], step)))

    assert drawn == whole
    assert isinstance(sampler.memory, Memory)
    assert sampler.memory.mu != mirostat.first_mu(3.0)
    assert math.isfinite(sampler.memory.mu)


def test_temperature_zero_stays_greedy() -> None:
    assert set(run(SamplingSpec(mirostat=2, temperature=0.0, seed=5), 9)) == {0}
    assert set(run(SamplingSpec(adaptive_target=0.1, temperature=0.0, seed=5), 9)) == {0}
