"""A row decoded with others gives what it gives alone, whoever joins or leaves, in every family of models."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.engine import MlxEngine
from tests.engines.mlx.driving import alone, loaded, spec_of, start, together

pytestmark = pytest.mark.mlx

# The first two compile kernels on a CPU for some seconds.
FAMILIES = [
    pytest.param("gemma3_text", marks=pytest.mark.slow),
    pytest.param("mamba", marks=pytest.mark.slow),
    pytest.param("falcon_h1", marks=pytest.mark.slow),
    "llama",
    "llama_tied",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "lfm2",
]


@pytest.fixture(params=FAMILIES)
def engine(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> MlxEngine:
    return loaded(checkpoint(request.param), lanes=3)


def _prompt(chance: random.Random, length: int) -> list[int]:
    return [chance.randrange(3, 320) for _ in range(length)]


def test_rows_that_join_and_leave_give_what_they_give_alone(engine: MlxEngine) -> None:
    chance = random.Random(7)
    samplings = [
        SamplingSpec(temperature=0.0, seed=0),
        SamplingSpec(temperature=1.0, seed=11, top_k=40, top_p=0.9),
        SamplingSpec(temperature=0.7, seed=2**63 + 5, min_p=0.02),
        SamplingSpec(temperature=0.0, seed=0, repetition_penalty=1.5, penalty_window=2, frequency_penalty=0.9),
        SamplingSpec(temperature=1.5, seed=11, presence_penalty=0.9, penalty_window=1, min_tokens=9),
        SamplingSpec(
            temperature=0.0, seed=0, logit_bias={5: 3.0}, ignore_eos=True, presence_penalty=0.3, penalty_window=-1
        ),
    ]
    lengths = [1, 14, 3, 9, 1, 22]
    stop = frozenset({2, 40, 41, 42})
    specs = [spec_of(_prompt(chance, n), s, stop_tokens=stop) for n, s in zip(lengths, samplings, strict=True)]

    expected = [alone(engine, spec, 14) for spec in specs]

    assert engine.capabilities.lanes == 3
    for trial in range(2):
        assert together(engine, specs, 14, random.Random(trial)) == expected


def test_prefill_in_chunks_is_prefill_at_once(engine: MlxEngine) -> None:
    spec = spec_of(_prompt(random.Random(3), 21))

    whole = alone(engine, spec, 10)

    assert [alone(engine, spec, 10, chunk=size) for size in (1, 4, 7)] == [whole] * 3


def test_closing_a_row_between_steps_leaves_the_others_alone(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("qwen3"), lanes=3)
    specs = [spec_of(_prompt(random.Random(seed), 4 + seed)) for seed in range(3)]
    expected = [alone(engine, spec, 12) for spec in specs]
    for row, spec in enumerate(specs):
        start(engine, row, spec)
    tokens = [[step.token] for step in engine.step([0, 1, 2])]
    for _ in range(4):
        for row, step in enumerate(engine.step([0, 1, 2])):
            tokens[row].append(step.token)

    engine.close(1)
    engine.close(1)
    for _ in range(7):
        for row, step in zip([2, 0], engine.step([2, 0]), strict=True):
            tokens[row].append(step.token)

    assert tokens == [expected[0], expected[1][:5], expected[2]]


def test_a_row_number_is_free_again_after_close(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    first, second = spec_of([5, 6, 7, 8]), spec_of([100, 90])
    expected = alone(engine, second, 6)
    start(engine, 0, first)
    engine.step([0])
    engine.step([0])
    engine.step([0])
    engine.close(0)

    assert alone(engine, second, 6) == expected


def test_a_model_that_computes_positions_for_one_row_only_gets_one_lane(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama_dynamic_rope"), lanes=4)

    assert engine.capabilities.lanes == 1


def test_rows_take_turns_on_one_lane(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama_dynamic_rope"), lanes=4)
    specs = [spec_of([9, 8, 7]), spec_of([50, 60, 70, 80])]
    expected = [alone(engine, spec, 8) for spec in specs]
    for row, spec in enumerate(specs):
        start(engine, row, spec)

    tokens: list[list[int]] = [[], []]
    for turn in [0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1]:
        tokens[turn].append(engine.step([turn])[0].token)

    assert tokens == expected
