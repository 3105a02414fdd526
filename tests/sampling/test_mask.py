"""Bits to booleans."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dragoman.sampling.mask import forbid, packed, unpacked


def test_the_layout_is_llguidances() -> None:
    mask = np.array([1 | (1 << 31) - (1 << 32), 0b100], dtype=np.int32)

    assert np.flatnonzero(unpacked(mask, 64)).tolist() == [0, 31, 34]


@given(st.lists(st.booleans(), min_size=1, max_size=140))
def test_packing_is_undone(bits: list[bool]) -> None:
    allowed = np.array(bits)

    words = packed(allowed)

    assert words.dtype == np.int32
    assert len(words) == -(-len(bits) // 32)
    assert unpacked(words, len(bits)).tolist() == bits
    assert all(bool(words[t // 32] >> (t % 32) & 1) == bit for t, bit in enumerate(bits))


def test_ids_beyond_the_mask_are_forbidden() -> None:
    assert unpacked(np.array([-1], dtype=np.int32), 40).tolist() == [True] * 32 + [False] * 8


def test_ids_beyond_the_vocabulary_do_not_exist() -> None:
    assert unpacked(np.array([-1, -1], dtype=np.int32), 5).tolist() == [True] * 5


def test_what_is_forbidden_cannot_be_drawn() -> None:
    row = np.array([1.0, 2.0], dtype=np.float32)

    assert forbid(row, np.array([True, False])).tolist() == [1.0, -np.inf]
    assert forbid(row, None) is row
