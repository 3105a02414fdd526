"""The vectorised sampler is the reference sampler, row by row and draw by draw."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowStep
from dragoman.engines.mlx.arrays import to_list
from dragoman.engines.mlx.chance import head_sizes
from dragoman.engines.mlx.filters import Filters
from dragoman.engines.mlx.noise import noise_of, noise_of_all
from dragoman.engines.mlx.sample import Sampler
from dragoman.sampling.noise import chances, gumbel, step_keys
from dragoman.sampling.reference import Moment, RowSampler, log_probabilities
from dragoman.sampling.vectors import vectors_of
from tests.engines.mlx.sampling_rows import STOP, agree, row_of

pytestmark = pytest.mark.mlx

SIZE = 41

plain = {
    "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5, None]),
    "top_k": st.sampled_from([None, 0, 1, 3, 17, 41]),
    "top_p": st.sampled_from([None, 1.0, 0.95, 0.5, 0.1, 0.0]),
    "min_p": st.sampled_from([None, 0.0, 0.05, 0.4, 1.0]),
    "min_keep": st.sampled_from([None, 1, 4]),
    "repetition_penalty": st.sampled_from([None, 1.0, 1.3, 0.8]),
    "presence_penalty": st.sampled_from([None, 0.0, 0.7, -0.7]),
    "frequency_penalty": st.sampled_from([None, 0.0, 0.3]),
    "penalty_window": st.sampled_from([None, -1, 0, 1, 2, 5, 300]),
    "min_tokens": st.sampled_from([None, 0, 2, 4]),
    "logit_bias": st.sampled_from([None, {3: 4.0, 9: -np.inf}, {7: 20.0}]),
    "ignore_eos": st.sampled_from([None, False, True]),
    "seed": st.integers(0, 2**64 - 1),
}
rare = {
    "typical_p": st.sampled_from([None, 0.9, 0.4]),
    "top_n_sigma": st.sampled_from([None, 0.5, 1.5]),
    "xtc_probability": st.sampled_from([None, 0.5, 1.0]),
    "xtc_threshold": st.sampled_from([None, 0.05, 0.2, 0.6]),
    "dynatemp_range": st.sampled_from([None, 0.2, 1.0]),
    "dynatemp_exponent": st.sampled_from([None, 1.0, 2.0]),
}
curve = {
    "hlg_width": st.sampled_from([None, 0.0, 2.0, np.inf]),
    "hlg_shoulder": st.sampled_from([None, 3.0, 0.0]),
    "hlg_toe": st.sampled_from([None, 1.5, -1.0]),
    "hlg_offset": st.sampled_from([None, 0.0, 5.0]),
}
special = {
    "mirostat": st.sampled_from([None, None, 1, 2]),
    "mirostat_tau": st.sampled_from([None, 1.0, 3.0]),
    "adaptive_target": st.sampled_from([None, -1.0, 0.2, 0.7]),
    "dry_multiplier": st.sampled_from([None, 0.0, 2.0]),
    "dry_allowed_length": st.sampled_from([None, 1]),
    "dry_penalty_window": st.sampled_from([None, -1, 6]),
    "dry_sequence_breakers": st.sampled_from([None, ("abc",)]),
    "samplers": st.sampled_from(
        [None, None, (), ("temperature", "top_k", "top_p"), ("top_p", "penalties", "adaptive_p"), ("dry", "min_p")]
    ),
}
plain_specs = st.builds(SamplingSpec, **plain)
vector_specs = st.one_of(
    plain_specs, st.builds(SamplingSpec, **plain, **rare), st.builds(SamplingSpec, **plain, **curve)
)
all_specs = st.one_of(vector_specs, st.builds(SamplingSpec, **plain, **rare, **special))
tokens = st.lists(st.integers(0, 9), min_size=1, max_size=9)
companies = st.lists(st.tuples(all_specs, tokens, st.integers(0, 40)), min_size=1, max_size=4)


@settings(max_examples=70, deadline=None)
@given(companies, st.integers(0, 2**32 - 1), st.booleans())
def test_every_row_draws_what_the_reference_draws(
    rows: list[tuple[SamplingSpec, list[int], int]], seed: int, filter_on_host: bool
) -> None:
    chance = np.random.default_rng(seed)
    state = [row_of(spec, said, drawn) for spec, said, drawn in rows]

    agree(state, [chance.normal(0, 3, (len(state), SIZE)).astype(np.float32) for _ in range(4)], None, filter_on_host)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.builds(SamplingSpec, **{**plain, "top_k": st.sampled_from([None, 2, 40, 90, 200])}, **rare),
        min_size=3,
        max_size=3,
    ),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_large_vocabularies_draw_alike(specs: list[SamplingSpec], seed: int, filter_on_host: bool) -> None:
    """Where only the most likely tokens are looked at."""
    chance = np.random.default_rng(seed)

    agree(
        [row_of(spec, [1, 2]) for spec in specs],
        [chance.normal(0, 2, (3, 5003)).astype(np.float32)],
        None,
        filter_on_host,
    )


def test_how_many_tokens_are_looked_at() -> None:
    specs = [
        SamplingSpec(),
        SamplingSpec(top_k=40),
        SamplingSpec(top_k=40, min_keep=97),
        SamplingSpec(top_k=1000),
        SamplingSpec(top_k=2000),
    ]

    assert head_sizes(vectors_of(specs, 50_000), 50_000).tolist() == [50_000, 256, 4096, 4096, 50_000]
    assert head_sizes(vectors_of(specs, 100), 100).tolist() == [100] * 5


def chances_at_start(specs: list[SamplingSpec]) -> np.ndarray:
    return np.array([chances(spec.seed or 0, 0, 1)[0] for spec in specs], dtype=np.float32)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, (3, SIZE), elements=st.sampled_from([-2.0, 0.0, 0.5, 1.0, 1.0, 3.0])),
    st.lists(vector_specs, min_size=3, max_size=3),
)
def test_filters_keep_what_the_reference_keeps_even_among_ties(logits: np.ndarray, three: list[SamplingSpec]) -> None:
    vectors = vectors_of(three, SIZE)
    batch = mx.array(logits)
    chance = chances_at_start(three)

    kept = np.array(Filters(vectors, np.arange(3), SIZE).apply(batch, batch, chance)) > -np.inf

    for spec, line, mask, greedy in zip(three, logits, kept, vectors.greedy, strict=True):
        if greedy:
            continue
        ids = RowSampler(spec, STOP, SIZE).candidates(line, Moment([], 0)).ids
        assert np.flatnonzero(mask).tolist() == ids.tolist()


def test_flat_logits_in_company_of_a_row_with_sigma() -> None:
    rows = [row_of(SamplingSpec(seed=1), [1]), row_of(SamplingSpec(seed=1, top_n_sigma=1.0), [1])]

    agree(rows, [np.full((2, SIZE), 2.5, dtype=np.float32) for _ in range(3)])


@pytest.mark.parametrize("window", [1, 3, 64, 256, 257, -1])
def test_windows_of_every_length_count_alike(window: int) -> None:
    """The same row with a short and a long window, over more tokens than the short one holds."""
    spec = SamplingSpec(
        seed=1,
        temperature=0.7,
        repetition_penalty=1.4,
        frequency_penalty=0.4,
        presence_penalty=0.3,
        penalty_window=window,
    )
    chance = np.random.default_rng(4)
    rows = [row_of(spec, chance.integers(0, SIZE, length).tolist()) for length in (1, 2, 300)]
    rows.append(row_of(SamplingSpec(temperature=0.0), [1]))

    agree(rows, [chance.normal(0, 1, (4, SIZE)).astype(np.float32) for _ in range(12)])


def test_more_ties_than_places_are_all_kept() -> None:
    """Up to as many as are looked at beyond top_k."""
    logits = np.zeros((1, 5000), dtype=np.float32)
    logits[0, :50] = 1.0
    specs = [SamplingSpec(top_k=40, seed=seed) for seed in range(60)]

    drawn = {Sampler([row_of(spec, [1])], 5000).draw(mx.array(logits)).step_of(0).token for spec in specs}

    assert max(drawn) < 50
    assert drawn & set(range(40, 50))


@pytest.mark.parametrize("size", [40, 1000, 1013])
def test_mlx_makes_the_noise_of_the_reference(size: int) -> None:
    keys = step_keys(2**63 + 12345, 6, 3)
    ids = np.random.default_rng(3).integers(0, size, (3, 17))

    everywhere = np.array(noise_of_all(mx.array(keys), size))
    somewhere = np.array(noise_of(mx.array(keys), mx.array(ids)))

    for key, line, chosen, few in zip(keys, everywhere, ids, somewhere, strict=True):
        assert np.allclose(line, gumbel(key, np.arange(size)), rtol=1e-5, atol=1e-6)
        assert np.array_equal(few, line[chosen])


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
    assert alone == [RowSampler(spec, STOP, SIZE).draw(logits, Moment([], step)) for step in range(70)]
    assert drawn(others) == alone
    assert drawn(others[:1]) == alone


def _steps(spec: SamplingSpec, logits: np.ndarray, logprobs: int | None) -> RowStep:
    return Sampler([row_of(spec, [1, 2], 0, logprobs)], SIZE).draw(mx.array(logits[None])).step_of(0)


def test_logprobs_are_those_after_penalties_and_before_temperature() -> None:
    logits = np.random.default_rng(5).normal(0, 2, SIZE).astype(np.float32)
    spec = SamplingSpec(temperature=3.0, top_k=2, seed=1, logit_bias={4: -np.inf, 5: 2.0}, presence_penalty=1.0)
    want = log_probabilities(RowSampler(spec, STOP, SIZE).processed(logits, Moment([1, 2], 0)))

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

    for on_host in (False, True):
        drawn = Sampler([row_of(spec, [1])], SIZE, None, on_host).draw(mx.array(logits[None])).step_of(0).token
        assert drawn == RowSampler(spec, STOP, SIZE).draw(logits.astype(np.float32), Moment([], 0))


def test_penalised_rows_follow_their_windows_beside_rows_drawn_one_by_one() -> None:
    rows = [
        row_of(SamplingSpec(seed=1, presence_penalty=3.0, penalty_window=2, top_k=5), [1, 2, 3]),
        row_of(SamplingSpec(seed=2, mirostat=2, mirostat_tau=2.0), [1, 2, 3]),
        row_of(SamplingSpec(temperature=0.0, dry_multiplier=5.0, dry_allowed_length=1), [1, 2, 1, 2]),
        row_of(SamplingSpec(temperature=0.0), [1]),
    ]

    agree(rows, [np.random.default_rng(i).normal(0, 1, (4, SIZE)).astype(np.float32) for i in range(40)])


def test_memory_outlives_the_batch() -> None:
    """Mirostat's state goes along when rows join or leave and the sampler is made anew."""
    logits = np.random.default_rng(2).normal(0, 3, SIZE).astype(np.float32)
    spec = SamplingSpec(mirostat=2, mirostat_tau=2.0, mirostat_eta=0.5, seed=5)
    reference = RowSampler(spec, STOP, SIZE)
    row, company = row_of(spec, [1]), row_of(SamplingSpec(seed=3), [1])

    drawn = list[int]()
    for step in range(30):
        together = step % 3 == 1
        batch = Sampler([company, row] if together else [row], SIZE)
        drawn.append(batch.draw(mx.array(np.stack([logits] * (1 + together)))).step_of(int(together)).token)
        row.tokens.append(drawn[-1])
        row.drawn += 1

    assert drawn == [reference.draw(logits, Moment([], step)) for step in range(30)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_drawn_on_the_cpu_fails_alone(bad: float) -> None:
    logits = np.random.default_rng(0).normal(0, 1, (2, SIZE)).astype(np.float32)
    logits[0, :] = bad
    rows = [row_of(SamplingSpec(mirostat=2), [1]), row_of(SamplingSpec(temperature=0.0), [1])]

    draw = Sampler(rows, SIZE).draw(mx.array(logits))

    assert draw.step_of(0).error is not None
    assert draw.step_of(1) == RowStep(int(np.argmax(logits[1])))


def test_logprobs_of_a_row_drawn_on_the_cpu_are_those_after_dry() -> None:
    logits = np.random.default_rng(5).normal(0, 2, SIZE).astype(np.float32)
    spec = SamplingSpec(dry_multiplier=4.0, dry_allowed_length=1, temperature=2.0, seed=3)
    said = [1, 2, 9, 1]
    want = log_probabilities(RowSampler(spec, STOP, SIZE).processed(logits, Moment(said, 0)))
    rows = [row_of(SamplingSpec(seed=1), [1]), row_of(spec, said, 0, 3)]

    step = Sampler(rows, SIZE).draw(mx.array(np.stack([logits, logits]))).step_of(1)

    assert step.logprobs is not None
    assert step.logprobs.chosen.logprob == pytest.approx(want[step.token], abs=1e-5)
    assert [entry.id for entry in step.logprobs.top] == np.argsort(-want)[:3].tolist()
    assert want[2] < log_probabilities(logits)[2] - 3


def test_greedy_rows_compute_no_noise() -> None:
    """Nothing but an argmax: the tokens are those of the logits whatever the seed."""
    logits = np.random.default_rng(1).normal(0, 1, (2, SIZE)).astype(np.float32)
    rows = [row_of(SamplingSpec(temperature=0.0, seed=seed, top_k=5), [1]) for seed in (1, 2)]

    assert to_list(Sampler(rows, SIZE).draw(mx.array(logits)).tokens) == np.argmax(logits, axis=-1).tolist()
