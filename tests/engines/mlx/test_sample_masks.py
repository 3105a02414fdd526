"""Masked rows draw what is allowed, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.sample import Sampler
from dragoman.sampling.mask import packed
from tests.engines.mlx.sampling_rows import agree, row_of

pytestmark = pytest.mark.mlx

SIZE = 70
KINDS = [
    SamplingSpec(temperature=0.0),
    SamplingSpec(seed=1),
    SamplingSpec(seed=2, top_k=5, top_p=0.9, min_p=0.05, presence_penalty=0.5, temperature=0.8),
    SamplingSpec(seed=3, top_p=0.7, logit_bias={4: 5.0}),
    SamplingSpec(seed=4, mirostat=2, mirostat_tau=2.0),
    SamplingSpec(seed=5, dry_multiplier=1.0, typical_p=0.8),
]


def mask_of(*ids: int) -> np.ndarray:
    return packed(np.isin(np.arange(SIZE), ids))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.data(), st.booleans())
def test_masked_rows_draw_what_the_reference_draws(kinds: list[SamplingSpec], data: st.DataObject, host: bool) -> None:
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    masked = data.draw(st.lists(st.integers(0, len(kinds) - 1), unique=True))
    allowed = [{i: packed(chance.random(SIZE) < 0.2) for i in masked} for _ in range(3)]
    logits = [chance.normal(0, 3, (len(kinds), SIZE)).astype(np.float32) for _ in range(3)]

    agree([row_of(kind, [1, 2, 1]) for kind in kinds], logits, allowed, host)


@pytest.mark.parametrize("kind", KINDS)
def test_only_allowed_tokens_are_drawn_and_reported(kind: SamplingSpec) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (2, SIZE)).astype(np.float32)
    rows = [row_of(kind, [1]), row_of(kind, [1], 0, SIZE)]

    draw = Sampler(rows, SIZE).draw(mx.array(logits), {1: mask_of(3, 66)})

    step = draw.step_of(1)
    assert step.error is None
    assert step.token in (3, 66)
    assert step.logprobs is not None
    assert [entry.logprob > -9999 for entry in step.logprobs.top] == [True, True] + [False] * (SIZE - 2)
    assert draw.step_of(0).token == Sampler(rows[:1], SIZE).draw(mx.array(logits[:1])).step_of(0).token


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_that_allows_nothing_ends_its_row_alone(kind: SamplingSpec) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (2, SIZE)).astype(np.float32)

    draw = Sampler([row_of(kind, [1]), row_of(kind, [1])], SIZE).draw(mx.array(logits), {0: mask_of()})

    assert draw.step_of(0).error == "The constraint allows no token here."
    assert draw.step_of(1).error is None


def test_a_mask_of_banned_tokens_only_is_an_error_too() -> None:
    spec = SamplingSpec(temperature=0.0, logit_bias={3: -np.inf})

    draw = Sampler([row_of(spec, [1])], SIZE).draw(mx.zeros((1, SIZE)), {0: mask_of(3)})

    assert draw.step_of(0).error is not None


def test_ids_beyond_the_mask_are_forbidden() -> None:
    logits = np.zeros((1, SIZE), dtype=np.float32)
    logits[0, 64:] = 5.0
    logits[0, 40] = 1.0

    draw = Sampler([row_of(SamplingSpec(temperature=0.0), [1])], SIZE).draw(
        mx.array(logits), {0: np.full(2, -1, dtype=np.int32)}
    )

    assert draw.step_of(0).token == 40


def test_masks_come_in_any_order_of_rows() -> None:
    rows = [row_of(SamplingSpec(temperature=0.0), [1]) for _ in range(3)]
    masks = {2: mask_of(12), 0: mask_of(10), 1: mask_of(11)}

    draw = Sampler(rows, SIZE).draw(mx.zeros((3, SIZE), dtype=mx.float16), masks)

    assert [draw.step_of(i).token for i in range(3)] == [10, 11, 12]


def test_no_masks_are_no_masks() -> None:
    rows = [row_of(SamplingSpec(temperature=0.0), [1])]

    assert Sampler(rows, SIZE).draw(mx.zeros((1, SIZE)), {}).step_of(0).error is None
