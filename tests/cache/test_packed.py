from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.cache.packed import WIDTH, pack, shared, token_at, unpack

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=300).map(tuple)
FEW_IDS = st.lists(st.integers(0, 1) | st.sampled_from([255, 256, 65535]), max_size=300).map(tuple)


@given(TOKENS)
def test_packing_can_be_undone(tokens: tuple[int, ...]) -> None:
    key = pack(tokens)
    assert key is not None
    assert len(key) == WIDTH * len(tokens)
    assert unpack(key) == tokens


def test_what_no_token_can_be_is_not_packed() -> None:
    assert pack((1, -1)) is None
    assert pack((2**32,)) is None
    assert pack((2**90,)) is None


def test_token_at() -> None:
    key = pack((7, 8))
    assert key is not None
    assert [token_at(key, index) for index in range(3)] == [7, 8, None]


@given(FEW_IDS, FEW_IDS, FEW_IDS, st.integers(0, 320), st.integers(0, 640))
def test_shared_counts_equal_tokens(
    head: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...], start: int, stop: int
) -> None:
    left, right = head + one, head + other
    expected = 0
    for a, b in zip(left[start:stop], right[start:stop], strict=False):
        if a != b:
            break
        expected += 1
    left_key, right_key = pack(left), pack(right)
    assert left_key is not None
    assert right_key is not None
    assert shared(left_key, right_key, start, stop) == expected
    assert shared(right_key, left_key, start, stop) == expected


@given(st.integers(0, 9999), st.integers(1, 9999))
def test_shared_finds_one_difference_in_a_long_key(place: int, other: int) -> None:
    tokens = list(range(10_000))
    changed = [*tokens]
    changed[place] = tokens[place] + other
    left, right = pack(tokens), pack(changed)
    assert left is not None
    assert right is not None
    assert shared(left, right, 0, 10_000) == place
