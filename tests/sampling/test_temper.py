"""Temperature, dynamic temperature and HLG curve against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.sampling.temper import dynamic_temperature, hlg, tempered

rows = arrays(np.float32, 12, elements=st.floats(-20, 20, width=32))


def test_dynamic_temperature_follows_entropy() -> None:
    flat, single = np.zeros(8, dtype=np.float32), np.array([0.0, -80.0], dtype=np.float32)

    assert dynamic_temperature(flat, 1.0, 0.5, 1.0) == pytest.approx(1.5)
    assert dynamic_temperature(single, 1.0, 0.5, 1.0) == pytest.approx(0.5)
    assert dynamic_temperature(single, 0.3, 0.5, 1.0) == pytest.approx(0.0)
    assert dynamic_temperature(flat[:1], 0.7, 0.5, 1.0) == 0.7


def test_the_exponent_bends_it() -> None:
    half = np.log(np.array([0.8105, 0.1895 / 3, 0.1895 / 3, 0.1895 / 3], dtype=np.float32))
    plain = dynamic_temperature(half, 1.0, 1.0, 1.0) / 2

    assert 0.3 < plain < 0.7
    assert dynamic_temperature(half, 1.0, 1.0, 3.0) / 2 == pytest.approx(plain**3)


def test_the_curve_by_hand() -> None:
    logits = np.array([10.0, 4.0, -1.0, -7.0], dtype=np.float32)  # pivot 4: z = 6, 0, -5, -11

    curve = hlg(logits, 0.5, 4.0, 3.0, 2.0, 6.0)

    want = [2 * 4 + 2 * 3 * np.log1p(2 / 3), 0.0, -2 * 4 - 2 * 2 * np.log1p(1 / 2), -2 * 4 - 2 * 2 * np.log1p(7 / 2)]
    assert curve == pytest.approx(want, rel=1e-6)


@given(rows, st.floats(0.1, 3), st.floats(0, 8))
def test_the_curve_without_bends_is_temperature(row: np.ndarray, temperature: float, width: float) -> None:
    for curve in (hlg(row, temperature, width, 0.0, -1.0, 6.0), hlg(row, temperature, np.inf, 4.0, 4.0, 6.0)):
        assert curve - curve.max() == pytest.approx(tempered(row, temperature), abs=1e-3)


@given(rows, st.floats(0.1, 3), st.floats(0, 8), st.floats(0.1, 9), st.floats(0.1, 9), st.floats(0, 9))
def test_the_curve_keeps_the_order(row: np.ndarray, t: float, w: float, above: float, below: float, off: float) -> None:
    order = np.argsort(row)

    assert (np.diff(hlg(row, t, w, above, below, off)[order]) >= -1e-4).all()


@pytest.mark.parametrize("temperature", [1e-30, 1e-6])
def test_a_tiny_temperature_leaves_one_peak(temperature: float) -> None:
    with np.errstate(over="ignore"):
        assert tempered(np.array([80.0, 79.0], dtype=np.float32), temperature)[0] == 0.0
