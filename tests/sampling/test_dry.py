"""DRY against its definition, counted the slow way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.sampling.breakers import Breakers, BreakerTable
from dragoman.sampling.dry import Dry, repeats

NONE = Breakers()


def dry(
    multiplier: float = 1.0, base: float = 2.0, allowed: int = 2, window: int = -1, breakers: Breakers = NONE
) -> Dry:
    return Dry(multiplier, base, allowed, window, breakers)


def slow(history: Sequence[int], allowed: int, longest: int) -> dict[int, int]:
    """Longest repetition each token would carry on."""
    found: dict[int, int] = {}
    for place in range(1, len(history)):
        length = 0
        while length < min(place, longest) and history[place - 1 - length] == history[-1 - length]:
            length += 1
        if length >= allowed:
            found[history[place]] = max(found.get(history[place], 0), length)
    return found


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 4))
def test_penalties_follow_the_definition(history: list[int], allowed: int) -> None:
    want = {token: 3.0 * 1.5 ** (n - allowed) for token, n in slow(history, allowed, 99).items()}

    assert dry(3.0, 1.5, allowed).penalties(history) == pytest.approx(want)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.sets(st.integers(0, 4), max_size=2))
def test_breakers_cut_repetitions_short_and_are_never_penalised(history: list[int], single: set[int]) -> None:
    since = next((back for back, token in enumerate(reversed(history)) if token in single), len(history))
    want = {token: 2.0 ** (n - 1) for token, n in slow(history, 1, since).items() if token not in single}

    assert dry(allowed=1, breakers=Breakers(frozenset(single))).penalties(history) == want


def test_a_sentence_said_before() -> None:
    assert dry().penalties([1, 2, 3, 4, 9, 1, 2, 3]) == {4: 2.0}
    assert dry().penalties([7, 2, 3, 4, 9, 1, 2, 3]) == {4: 1.0}
    assert dry().penalties([7, 7, 3, 4, 9, 1, 2, 3]) == {}


def test_the_window_limits_what_is_seen() -> None:
    history = [1, 2, 3, 4, 9, 1, 2, 3]

    assert dry(window=7).penalties(history) == {4: 1.0}
    assert dry(window=5).penalties(history) == {}
    assert dry(window=0).penalties(history) == {}


@pytest.mark.parametrize("off", [dry(multiplier=0.0), dry(base=0.9)])
def test_off_is_off(off: Dry) -> None:
    assert off.penalties([1] * 20) == {}


def test_a_long_loop_stays_finite() -> None:
    (penalty,) = dry(1.0, 1.75).penalties([5] * 5000).values()

    assert 1e37 < penalty < np.finfo(np.float32).max


def test_a_base_of_one_is_constant() -> None:
    assert dry(0.5, 1.0).penalties([5] * 50) == {5: 0.5}


def test_repeats_count_backwards() -> None:
    assert repeats(np.array([1, 2, 1, 2, 1, 2]), 9).tolist() == [0, 0, 2, 0, 4, 0]
    assert repeats(np.array([1, 2, 1, 2, 1, 2]), 3).tolist() == [0, 0, 2, 0, 3, 0]


PIECES = ["a", "\n", "x\ny", "<", "/", "|", "end", "b<", "<|end|>", ""]


def test_breakers_are_found_in_the_vocabulary() -> None:
    table = BreakerTable(PIECES, lambda text: {"|": [5], "/": [4]}.get(text, [0, 0]))

    found = table(("\n", "<|", "</"))

    assert found.single == {1, 2, 8}
    assert found.tails == {3: ((5,), (4,)), 7: ((5,), (4,))}
    assert table(("\n", "<|", "</")) is found


def test_a_breaker_of_several_tokens_must_be_complete() -> None:
    breakers = Breakers(frozenset(), {3: ((5, 6),)})

    assert breakers.distance([0, 3, 5, 6, 1, 1]) == 2
    assert breakers.distance([0, 3, 5, 6]) == 0
    assert breakers.distance([0, 3, 5]) == 3
    assert breakers.distance([3, 5, 1, 6]) == 4


def test_an_empty_breaker_breaks_nothing() -> None:
    assert BreakerTable(PIECES, lambda _: [])(("",)) == Breakers()
