"""Counter-based randomness: published test vectors, full seeds, independent steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.sampling.noise import BLOCK, SPAN, chances, gumbel, step_keys, threefry, uniforms


def _words(*values: int) -> list[np.ndarray]:
    return [np.array([value], np.uint32) for value in values]


# Known answers of Threefry-2x32, 20 rounds, from the Random123 distribution (kat_vectors).
@pytest.mark.parametrize(
    ("counter", "key", "block"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_blocks_are_those_of_the_published_function(
    counter: tuple[int, int], key: tuple[int, int], block: tuple[int, int]
) -> None:
    left, right = threefry(tuple(_words(*key)), tuple(_words(*counter)))  # type: ignore[arg-type]

    assert (int(left[0]), int(right[0])) == block


@given(st.integers(0, 2**64 - 1), st.integers(0, 63), st.integers(0, 10**9))
def test_every_bit_of_the_seed_and_the_step_matter(seed: int, bit: int, step: int) -> None:
    key = step_keys(seed, step, 1)[0].tolist()

    assert step_keys(seed ^ (1 << bit), step, 1)[0].tolist() != key
    assert step_keys(seed, step + 1, 1)[0].tolist() != key


def test_a_block_of_keys_is_the_keys_one_by_one() -> None:
    block = step_keys(123456789012345678, 7, 40)

    assert block.tolist() == [step_keys(123456789012345678, 7 + i, 1)[0].tolist() for i in range(40)]


def test_noise_is_standard_gumbel() -> None:
    noise = np.concatenate([gumbel(key, np.arange(1001)) for key in step_keys(5, 0, 200)])

    assert len(noise) == 200_200
    assert len(np.unique(noise)) > 199_000
    assert abs(noise.mean() - 0.57722) < 0.01
    assert abs(noise.std() - 1.28255) < 0.01
    assert np.isfinite(noise).all()
    assert noise.max() < 23
    assert noise.max() - noise.min() < SPAN


@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=9))
def test_the_noise_of_a_token_does_not_depend_on_the_others(ids: list[int]) -> None:
    key = step_keys(3, 4, 1)[0]

    together = gumbel(key, np.array(ids))

    assert together.tolist() == [float(gumbel(key, np.array([token]))[0]) for token in ids]


def test_a_block_of_noise_is_made_of_the_uniforms_of_its_key() -> None:
    key = step_keys(9, 2, 1)[0]
    block = np.array([key[0], key[1] ^ np.uint32(7)])

    noise = gumbel(key, np.arange(7 * BLOCK, 8 * BLOCK))

    assert np.array_equal(noise, -np.log(-np.log1p(-uniforms(block, BLOCK))))


def test_chances_are_uniform_and_not_those_of_the_noise() -> None:
    drawn = chances(5, 0, 4000)

    assert abs(drawn.mean() - 0.5) < 0.02
    assert abs(np.mean(drawn < 0.1) - 0.1) < 0.02
    assert drawn[:50].tolist() == [float(chances(5, step, 1)[0]) for step in range(50)]
    noise = [gumbel(key, np.arange(1))[0] for key in step_keys(5, 0, 1000)]
    assert abs(np.corrcoef(drawn[:1000], noise)[0, 1]) < 0.1


def test_an_odd_number_of_uniforms_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        uniforms(step_keys(0, 0, 1)[0], 3)
