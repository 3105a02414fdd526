"""The vectorised sampler is the reference sampler, row by row and draw by draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.mlx.row import Row
from dragoman.engines.mlx.sample import Sampler
from dragoman.engines.mlx.stages import Chance
from dragoman.sampling import reference
from dragoman.sampling.noise import step_keys, uniforms
from dragoman.sampling.vectors import vectors_of

pytestmark = pytest.mark.mlx

SIZE = 41
STOP = frozenset({7, 8})

specs = st.builds(
    SamplingSpec,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5, None]),
    top_k=st.sampled_from([None, 0, 1, 3, 17, 41]),
    top_p=st.sampled_from([None, 1.0, 0.95, 0.5, 0.1, 0.0]),
    min_p=st.sampled_from([None, 0.0, 0.05, 0.4, 1.0]),
    min_keep=st.sampled_from([None, 1, 4]),
    repetition_penalty=st.sampled_from([None, 1.0, 1.3, 0.8]),
    presence_penalty=st.sampled_from([None, 0.0, 0.7, -0.7]),
    frequency_penalty=st.sampled_from([None, 0.0, 0.3]),
    penalty_window=st.sampled_from([None, -1, 0, 1, 2, 5]),
    min_tokens=st.sampled_from([None, 0, 2, 4]),
    logit_bias=st.sampled_from([None, {3: 4.0, 9: -np.inf}, {7: 20.0}]),
    ignore_eos=st.sampled_from([None, False, True]),
    seed=st.integers(0, 2**64 - 1),
)
histories = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=9)


def row_of(spec: SamplingSpec, tokens: Sequence[int], drawn: int = 0, logprobs: int | None = None) -> Row:
    row = Row(RowSpec(prompt=tuple(tokens), sampling=spec, stop_tokens=STOP, logprobs=logprobs), [])
    row.drawn = drawn
    return row


def expected(row: Row, logits: np.ndarray) -> int:
    spec = row.spec.sampling
    return reference.draw(reference.processed(logits, spec, row.tokens, row.drawn, STOP), spec, row.drawn)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(specs, st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=9), st.integers(0, 40)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2**32 - 1),
)
def test_every_row_draws_what_the_reference_draws(rows: list[tuple[SamplingSpec, list[int], int]], seed: int) -> None:
    """Four steps without reading tokens back in between, as when steps are computed ahead by one."""
    chance = np.random.default_rng(seed)
    state = [row_of(spec, tokens, drawn) for spec, tokens, drawn in rows]
    sampler = Sampler(state, SIZE)
    for _ in range(4):
        logits = chance.normal(0, 3, (len(state), SIZE)).astype(np.float32)
        want = [expected(row, line) for row, line in zip(state, logits, strict=True)]

        draw = sampler.draw(mx.array(logits))

        assert [draw.step_of(i).token for i in range(len(state))] == want
        for row, token in zip(state, want, strict=True):
            row.tokens.append(token)
            row.drawn += 1


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, (3, SIZE), elements=st.sampled_from([-2.0, 0.0, 0.5, 1.0, 1.0, 3.0])),
    st.lists(specs, min_size=3, max_size=3),
)
def test_filters_keep_what_the_reference_keeps_even_among_ties(logits: np.ndarray, three: list[SamplingSpec]) -> None:
    vectors = vectors_of(three, SIZE)
    if vectors.greedy.any():
        return
    chance = Chance(vectors, np.zeros(3, dtype=np.int64), SIZE)

    kept = np.isfinite(np.array(chance.scores(mx.array(logits))))

    for spec, line, mask in zip(three, logits, kept, strict=True):
        assert mask.tolist() == np.isfinite(reference.filtered(line, spec)).tolist()


@pytest.mark.parametrize("count", [2, 40, 1000])
def test_mlx_lays_uniform_numbers_out_like_the_reference(count: int) -> None:
    keys = step_keys(2**63 + 12345, 6, 3)

    together = np.array(mx.vmap(lambda key: mx.random.uniform(shape=(count,), key=key))(mx.array(keys)))

    for key, line in zip(keys, together, strict=True):
        assert np.array_equal(line, np.array(mx.random.uniform(shape=(count,), key=mx.array(key))))
        assert np.allclose(line, uniforms(key, count), rtol=0, atol=2**-31)


def test_a_seed_draws_the_same_alone_and_in_any_company() -> None:
    logits = np.random.default_rng(1).normal(0, 1, SIZE).astype(np.float32)
    spec = SamplingSpec(temperature=1.0, seed=2**64 - 3)
    others = [SamplingSpec(temperature=0.0), SamplingSpec(temperature=2.0, seed=4, top_k=5), spec]

    def drawn(company: list[SamplingSpec]) -> list[int]:
        sampler = Sampler([row_of(one, [1]) for one in [*company, spec]], SIZE)
        batch = mx.array(np.stack([logits] * (len(company) + 1)))
        return [sampler.draw(batch).step_of(len(company)).token for _ in range(70)]

    alone = drawn([])
    assert len(set(alone)) > 5
    assert alone == [reference.draw(logits, spec, step) for step in range(70)]
    assert drawn(others) == alone
    assert drawn(others[:1]) == alone


def _steps(spec: SamplingSpec, logits: np.ndarray, logprobs: int | None) -> RowStep:
    return Sampler([row_of(spec, [1, 2], 0, logprobs)], SIZE).draw(mx.array(logits[None])).step_of(0)


def test_logprobs_are_those_after_penalties_and_before_temperature() -> None:
    logits = np.random.default_rng(5).normal(0, 2, SIZE).astype(np.float32)
    spec = SamplingSpec(temperature=3.0, top_k=2, seed=1, logit_bias={4: -np.inf, 5: 2.0}, presence_penalty=1.0)
    want = reference.log_probabilities(reference.processed(logits, spec, [1, 2], 0, STOP))

    step = _steps(spec, logits, 6)

    assert step.logprobs is not None
    assert step.logprobs.chosen.id == step.token
    assert step.logprobs.chosen.logprob == pytest.approx(want[step.token], abs=1e-5)
    best = np.argsort(-want)[:6].tolist()
    assert [entry.id for entry in step.logprobs.top] == best
    assert [entry.logprob for entry in step.logprobs.top] == pytest.approx(want[best].tolist(), abs=1e-5)


@pytest.mark.parametrize(("count", "length"), [(0, 0), (1, 1), (SIZE, SIZE), (1000, SIZE)])
def test_as_many_alternatives_as_asked_for(count: int, length: int) -> None:
    logits = np.random.default_rng(5).normal(0, 2, SIZE).astype(np.float32)

    step = _steps(SamplingSpec(temperature=0.0, logit_bias={4: -np.inf}), logits, count)

    assert step.logprobs is not None
    assert len(step.logprobs.top) == length
    assert all(entry.logprob == -9999.0 for entry in step.logprobs.top if entry.id == 4)


def test_a_greedy_token_is_among_its_alternatives_when_many_tie() -> None:
    step = _steps(SamplingSpec(temperature=0.0), np.zeros(SIZE, dtype=np.float32), 1)

    assert step.logprobs is not None
    assert step.logprobs.top[0].id == step.token == 0


def test_only_rows_that_ask_get_logprobs() -> None:
    rows = [
        row_of(SamplingSpec(seed=1), [1]),
        row_of(SamplingSpec(seed=1), [1], 0, 2),
        row_of(SamplingSpec(), [1], 0, 5),
    ]

    draw = Sampler(rows, SIZE).draw(mx.array(np.random.default_rng(0).normal(0, 1, (3, SIZE)).astype(np.float32)))

    steps = [draw.step_of(i) for i in range(3)]
    assert [None if s.logprobs is None else len(s.logprobs.top) for s in steps] == [None, 2, 5]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_without_usable_logits_fails_alone(bad: float) -> None:
    logits = np.random.default_rng(0).normal(0, 1, (2, SIZE)).astype(np.float32)
    logits[0, 3] = bad
    rows = [row_of(SamplingSpec(temperature=0.0), [1]), row_of(SamplingSpec(temperature=0.0), [1])]

    draw = Sampler(rows, SIZE).draw(mx.array(logits))

    assert draw.step_of(0).error is not None
    assert draw.step_of(1) == RowStep(int(np.argmax(logits[1])))


def test_banning_everything_is_an_error_of_that_row() -> None:
    spec = SamplingSpec(temperature=1.0, seed=1, logit_bias=dict.fromkeys(range(SIZE), -np.inf))

    assert _steps(spec, np.zeros(SIZE, dtype=np.float32), None).error is not None


@pytest.mark.parametrize("temperature", [1e-30, 1e-6])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    logits = np.random.default_rng(2).normal(0, 30, SIZE).astype(np.float32)

    assert _steps(SamplingSpec(temperature=temperature, seed=5), logits, None).token == int(np.argmax(logits))


def test_half_precision_logits_are_sampled_in_float32() -> None:
    logits = np.random.default_rng(2).normal(0, 3, SIZE).astype(np.float16)
    spec = SamplingSpec(temperature=0.8, top_p=0.9, seed=5)

    drawn = Sampler([row_of(spec, [1])], SIZE).draw(mx.array(logits[None])).step_of(0).token

    assert drawn == expected(row_of(spec, [1]), logits.astype(np.float32))
