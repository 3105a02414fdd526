from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.row import METRICS, Row, Spread, percentile, rows_of, spread

VALUES = st.lists(st.floats(0.001, 1e6), min_size=1)


def test_spread() -> None:
    assert spread([3.0, 1.0, 2.0, 10.0]) == Spread(1.0, 2.5, 10.0)


def test_ratios_are_of_the_same_round() -> None:
    assert Row("p", "w", "decode", (10.0, 20.0), (5.0, 40.0)).ratios == (2.0, 0.5)


def test_a_round_without_a_peer_figure_has_no_ratio() -> None:
    assert Row("p", "w", "decode", (10.0, 20.0), (0.0, 40.0)).ratios == (0.5,)
    assert Row("p", "w", "decode", (10.0,)).ratios == ()


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing"):
        spread([])
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


@given(VALUES, st.floats(0, 1))
def test_percentile_is_one_of_the_values_with_enough_at_or_below(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_percentiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)) == (50.0, 99.0, 100.0)


def test_rows_of_rounds() -> None:
    ours = [{"gap p50": 1.0, "gap p99": 2.0}, {"gap p50": 3.0, "gap p99": 4.0}]
    peer = [{"gap p50": 5.0, "gap p99": 6.0}, {"gap p50": 7.0, "gap p99": 8.0}]
    first, second = rows_of("p", "w", ours, peer)
    assert first == Row("p", "w", "gap p50", (1.0, 3.0), (5.0, 7.0))
    assert second == Row("p", "w", "gap p99", (2.0, 4.0), (6.0, 8.0))
    assert {"gap p50", "gap p99"} <= set(METRICS)


def test_a_metric_that_a_round_lacks_is_left_out() -> None:
    rows = rows_of("p", "w", [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 3.0}], [{"a": 1.0, "b": 1.0}, {"a": 1.0}])
    assert [row.metric for row in rows] == ["a"]
