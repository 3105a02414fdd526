"""The engine keeps its contract: limits, errors, threads, and mlx-lm's own tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx

from dragoman.core.errors import EngineFailure, InvalidField, InvalidRequest
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import Engine
from dragoman.engines.mlx.engine import MlxEngine, MlxOptions
from dragoman.engines.mlx.load import load_checkpoint
from tests.engines.mlx.driving import GREEDY, alone, loaded, spec_of, start, steps_alone
from tests.engines.mlx.test_batch import FAMILIES

pytestmark = pytest.mark.mlx

PROMPT = [5, 77, 300, 12, 9, 200, 31]


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_mlx_lm(checkpoint: Callable[[str], Path], family: str) -> None:
    from mlx_lm.generate import generate_step

    model: Any = load_checkpoint(checkpoint(family)).model
    expected = [int(token) for token, _ in generate_step(mx.array(PROMPT), model, max_tokens=24)]

    assert alone(loaded(checkpoint(family)), spec_of(PROMPT), 24) == expected


def test_logprobs_are_those_of_the_model(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    steps = steps_alone(engine, spec_of(PROMPT, logprobs=3), 5)

    model: Any = load_checkpoint(checkpoint("llama")).model
    sequence = PROMPT + [step.token for step in steps]
    rows = np.array(model(mx.array([sequence]))[0]).astype(np.float64)[len(PROMPT) - 1 : -1]
    want = rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))
    for step, line in zip(steps, want, strict=True):
        assert step.logprobs is not None
        assert step.logprobs.chosen.logprob == pytest.approx(line[step.token], abs=1e-4)
        assert [entry.id for entry in step.logprobs.top] == np.argsort(-line)[:3].tolist()


def test_the_window_is_the_option_but_never_more_than_trained(checkpoint: Callable[[str], Path]) -> None:
    folder = checkpoint("llama")

    assert [loaded(folder, context_length=n).context_length for n in (0, 100, 10_000)] == [512, 100, 512]


@pytest.mark.slow
def test_a_model_without_trained_window_gets_one(checkpoint: Callable[[str], Path]) -> None:
    folder = checkpoint("mamba")

    assert [loaded(folder, context_length=n).context_length for n in (0, 100)] == [8192, 100]


def test_rows_run_to_the_end_of_the_window(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"), context_length=12)

    steps = steps_alone(engine, spec_of(PROMPT), 12 - len(PROMPT))

    assert len(steps) == 5
    assert steps == steps_alone(loaded(checkpoint("llama")), spec_of(PROMPT), 5)


def test_what_it_can_do_is_told(checkpoint: Callable[[str], Path]) -> None:
    engine: Engine = loaded(checkpoint("llama"), lanes=1)

    assert engine.capabilities.lanes == 1
    assert engine.capabilities.logprobs == 320
    assert {"temperature", "seed", "logit_bias"} <= engine.capabilities.sampling
    assert "dry_multiplier" not in engine.capabilities.sampling
    assert engine.build.startswith("mlx ")


@pytest.mark.parametrize("prompt", [[], [320], [-1], [5, 10**9]])
def test_ids_the_model_does_not_have_are_refused(checkpoint: Callable[[str], Path], prompt: list[int]) -> None:
    with pytest.raises(InvalidRequest, match="319"):
        loaded(checkpoint("llama")).open(0, spec_of(prompt))


def test_a_bias_for_an_unknown_id_is_refused(checkpoint: Callable[[str], Path]) -> None:
    spec = spec_of(PROMPT, SamplingSpec(temperature=0.0, seed=0, logit_bias={320: 1.0}))

    with pytest.raises(InvalidField):
        loaded(checkpoint("llama")).open(0, spec)


def test_rows_out_of_turn_are_refused(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    engine.open(0, spec_of(PROMPT))

    with pytest.raises(EngineFailure, match="before its prompt"):
        engine.step([0])
    with pytest.raises(EngineFailure, match="cannot prefill 7"):
        engine.prefill(0, 7)
    with pytest.raises(EngineFailure, match="not open"):
        engine.step([1])
    engine.close(1)
    assert engine.step([]) == []


def test_nothing_works_before_load_and_after_unload(checkpoint: Callable[[str], Path]) -> None:
    engine = MlxEngine(MlxOptions(path=str(checkpoint("llama"))))
    with pytest.raises(EngineFailure, match="no model loaded"):
        engine.open(0, spec_of(PROMPT))
    engine.load()
    start(engine, 0, spec_of(PROMPT))
    engine.step([0])
    engine.unload()
    engine.unload()
    engine.close(0)

    with pytest.raises(EngineFailure, match="no model loaded"):
        engine.step([0])


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="nowhere"):
        loaded(tmp_path / "nowhere")


def test_min_tokens_and_ignore_eos_hold_back_stop_tokens(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    free = alone(engine, spec_of(PROMPT), 10)
    stop = frozenset({free[3]})

    early = alone(engine, spec_of(PROMPT, SamplingSpec(temperature=0.0, seed=0, min_tokens=5), stop_tokens=stop), 5)
    never = alone(engine, spec_of(PROMPT, SamplingSpec(temperature=0.0, seed=0, ignore_eos=True), stop_tokens=stop), 20)
    exactly = alone(engine, spec_of(PROMPT, SamplingSpec(temperature=0.0, seed=0, min_tokens=3), stop_tokens=stop), 10)

    assert free[3] not in early
    assert free[3] not in never
    assert exactly == free


def test_a_failed_step_fails_its_rows_and_nothing_after(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    expected = alone(engine, spec_of(PROMPT), 6)
    decoder: Any = engine._ready._decoder  # pyright: ignore[reportPrivateUsage]
    model = decoder._model
    for row in range(3):
        start(engine, row, spec_of(PROMPT))
    engine.step([0, 1])
    engine.step([0, 1])

    def failing(*_: Any, **__: Any) -> mx.array:
        raise RuntimeError("out of memory")

    decoder._model = failing
    with pytest.raises(RuntimeError, match="out of memory"):
        engine.step([0, 1])
    decoder._model = model
    engine.close(0)
    engine.close(1)

    assert [engine.step([2])[0].token for _ in range(6)] == expected
    assert alone(engine, spec_of(PROMPT), 6) == expected


def test_memory_of_closed_rows_is_given_back(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    alone(engine, spec_of(PROMPT * 20), 4)
    before = mx.get_active_memory()
    for _ in range(5):
        alone(engine, spec_of(PROMPT * 20), 4)

    assert mx.get_active_memory() <= before


def test_two_engines_run_on_threads_of_their_own(checkpoint: Callable[[str], Path]) -> None:
    expected = {family: alone(loaded(checkpoint(family)), spec_of(PROMPT), 8) for family in ("llama", "qwen3")}
    found: dict[str, list[int]] = {}

    def work(family: str) -> None:
        engine = loaded(checkpoint(family))
        found[family] = alone(engine, spec_of(PROMPT, GREEDY), 8)
        engine.unload()

    threads = [threading.Thread(target=work, args=(family,)) for family in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert found == expected
