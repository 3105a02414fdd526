"""When the next step is set up before this one is read changes no token, and nothing is set up for rows that end."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.decoder import Decoder
from dragoman.engines.mlx.engine import MlxEngine
from tests.engines.mlx.driving import alone, loaded, spec_of, start, together

pytestmark = pytest.mark.mlx

FAMILIES = ["llama", "qwen3_moe", "lfm2"]


def _with(engine: MlxEngine, *, lazy: bool) -> MlxEngine:
    runtime: Any = engine._ready
    old: Any = runtime._decoder
    runtime._decoder = Decoder(old._model, old._vocab_size, old._context_length, lazy=lazy)
    return engine


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gpus_way_and_a_cpus_way_give_the_same(family: str, checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint(family), lanes=3)
    chance = random.Random(5)
    samplings = [
        SamplingSpec(temperature=0.0, seed=0),
        SamplingSpec(temperature=1.0, seed=3, top_k=20),
        SamplingSpec(temperature=0.9, seed=4, mirostat=2, mirostat_tau=3.0, mirostat_eta=0.2),
        SamplingSpec(temperature=0.0, seed=0, presence_penalty=0.5, penalty_window=8),
    ]
    specs = [spec_of([chance.randrange(3, 300) for _ in range(5)], sampling) for sampling in samplings]
    expected = [alone(_with(engine, lazy=True), spec, 12) for spec in specs]
    for lazy in (True, False):
        assert [alone(_with(engine, lazy=lazy), spec, 12) for spec in specs] == expected
        for trial in range(2):
            assert together(_with(engine, lazy=lazy), specs, 12, random.Random(trial)) == expected


@pytest.mark.parametrize("lazy", [True, False])
def test_a_row_is_not_fed_beyond_its_last_token(lazy: bool, checkpoint: Callable[[str], Path]) -> None:
    engine = _with(loaded(checkpoint("llama"), lanes=2), lazy=lazy)
    start(engine, 0, spec_of(range(5, 10), max_tokens=6))
    for _ in range(6):
        engine.step([0])
    # The prompt and all tokens but the last, which nothing follows.
    snapshot = engine.snapshot(0)
    assert snapshot is not None
    assert snapshot.length == 5 + 5


def test_steps_beyond_what_was_announced_are_given_all_the_same(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"), lanes=2)
    expected = alone(engine, spec_of(range(5, 10)), 9)
    assert alone(engine, spec_of(range(5, 10), max_tokens=4), 9) == expected
