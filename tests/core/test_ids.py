"""Identifiers are of the right length and letters, and never repeat."""

from __future__ import annotations

import string
from collections import Counter

from dragoman.core.ids import new_id


def test_shape() -> None:
    made = new_id("call_", 24)
    assert made.startswith("call_")
    assert len(made) == 29
    assert set(made[5:]) <= set(string.ascii_letters + string.digits)
    assert new_id("x", 0) == "x"


def test_unique_and_even() -> None:
    made = [new_id("", 24) for _ in range(5000)]
    assert len(set(made)) == 5000
    counts = Counter("".join(made))
    assert len(counts) == 62
    assert max(counts.values()) < 1.2 * min(counts.values())
