"""Filters against worked examples and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.sampling import filters
from dragoman.sampling.filters import entropy, softmax

ROW = np.log(np.array([0.5, 0.2, 0.15, 0.1, 0.05], dtype=np.float32))
rows = arrays(np.float32, 24, elements=st.floats(-20, 20, width=32))


def places(kept: np.ndarray) -> list[int]:
    return np.flatnonzero(kept).tolist()


def test_top_k_keeps_the_best() -> None:
    assert places(filters.top_k(ROW, 2)) == [0, 1]
    assert places(filters.top_k(ROW, 0)) == [0, 1, 2, 3, 4]
    assert places(filters.top_k(ROW, 9)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("p", "count"), [(0.3, 1), (0.5, 1), (0.6, 2), (0.69, 2), (0.8, 3), (0.94, 4), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(p: float, count: int) -> None:
    assert len(places(filters.top_p(ROW, p))) == count


@pytest.mark.parametrize(("p", "count"), [(0.0, 5), (0.09, 5), (0.15, 4), (0.35, 2), (0.5, 1), (1.0, 1)])
def test_min_p_is_relative_to_the_best(p: float, count: int) -> None:
    assert len(places(filters.min_p(ROW, p))) == count


def test_min_keep_overrules_filters() -> None:
    assert len(places(filters.top_p(ROW, 0.1, 3))) == 3
    assert len(places(filters.min_p(ROW, 0.9, 4))) == 4
    assert len(places(filters.typical(ROW, 0.1, 2))) == 2
    assert len(places(filters.xtc(ROW, 0.1, 3))) == 5
    assert len(places(filters.xtc(ROW, 0.1, 2))) == 2


def test_typical_begins_where_surprise_is_expected() -> None:
    # The entropy is 1.33 nats; the surprises are 0.69, 1.61, 1.90, 2.30, 3.00.
    assert places(filters.typical(ROW, 0.15)) == [1]
    assert places(filters.typical(ROW, 0.3)) == [1, 2]
    assert places(filters.typical(ROW, 0.5)) == [0, 1, 2]
    assert places(filters.typical(ROW, 0.9)) == [0, 1, 2, 3]
    assert places(filters.typical(ROW, 1.0)) == [0, 1, 2, 3, 4]


def test_top_n_sigma_counts_standard_deviations_from_the_best() -> None:
    row = np.array([10.0, 8.0, 4.0, 0.0, 0.0], dtype=np.float32)  # standard deviation 4.08

    assert places(filters.top_n_sigma(row, 0.4)) == [0]
    assert places(filters.top_n_sigma(row, 1.0)) == [0, 1]
    assert places(filters.top_n_sigma(row, 1.5)) == [0, 1, 2]
    assert places(filters.top_n_sigma(row, 0.0)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [(0.05, [4]), (0.1, [3, 4]), (0.16, [1, 2, 3, 4]), (0.3, [0, 1, 2, 3, 4]), (0.51, [0, 1, 2, 3, 4])],
)
def test_xtc_removes_all_likely_candidates_but_the_least_likely(threshold: float, kept: list[int]) -> None:
    assert places(filters.xtc(ROW, threshold)) == kept


@given(rows, st.floats(0.01, 1), st.integers(1, 30))
def test_filters_keep_what_they_must(row: np.ndarray, amount: float, min_keep: int) -> None:
    floor = min(min_keep, len(row))
    for kept in (filters.top_p(row, amount, min_keep), filters.min_p(row, amount, min_keep)):
        assert np.count_nonzero(kept) >= floor
        assert kept[np.argmax(row)]
        assert row[kept].min() > row[~kept].max(initial=-np.inf)
    assert softmax(row)[filters.top_p(row, amount)].sum() >= amount - 1e-9
    assert softmax(row)[filters.typical(row, amount)].sum() >= amount - 1e-9
    assert np.count_nonzero(filters.xtc(row, amount, min_keep)) >= floor


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.999), st.sampled_from([0.1, 1.0, 4.0]), st.integers(1, 1500))
def test_top_p_of_a_large_vocabulary(seed: int, p: float, spread: float, min_keep: int) -> None:
    """Whether its head holds the mass or not."""
    row = np.random.default_rng(seed).normal(0, spread, 3000).astype(np.float32)
    ordered = np.sort(row)[::-1]
    count = max(int(np.sum(np.cumsum(softmax(ordered)) < p)) + 1, min_keep)

    assert np.array_equal(filters.top_p(row, p, min_keep), row >= ordered[count - 1])


def test_entropy_is_shannons() -> None:
    assert entropy(np.array([0.25] * 4)) == pytest.approx(np.log(4))
    assert entropy(np.array([1.0, 0.0])) == 0
