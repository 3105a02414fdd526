"""Drives the MLX engine the way a scheduler does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.mlx.engine import MlxEngine, MlxOptions

GREEDY = SamplingSpec(temperature=0.0, seed=0)


def loaded(path: Path, **options: Any) -> MlxEngine:
    engine = MlxEngine(MlxOptions(path=str(path), **options))
    engine.load()
    return engine


def spec_of(prompt: Sequence[int], sampling: SamplingSpec = GREEDY, **fields: Any) -> RowSpec:
    return RowSpec(prompt=tuple(prompt), sampling=sampling, **fields)


def start(engine: MlxEngine, row: int, spec: RowSpec, chunk: int = 1000) -> None:
    engine.open(row, spec)
    left = len(spec.prompt) - 1
    while left:
        engine.prefill(row, min(chunk, left))
        left -= min(chunk, left)


def steps_alone(engine: MlxEngine, spec: RowSpec, count: int, row: int = 0, chunk: int = 1000) -> list[RowStep]:
    start(engine, row, spec, chunk)
    steps = [engine.step([row])[0] for _ in range(count)]
    engine.close(row)
    return steps


def alone(engine: MlxEngine, spec: RowSpec, count: int, chunk: int = 1000) -> list[int]:
    return [step.token for step in steps_alone(engine, spec, count, chunk=chunk)]


def together(engine: MlxEngine, specs: Sequence[RowSpec], count: int, chance: random.Random) -> list[list[int]]:
    """Every spec run to `count` tokens, rows joining, pausing and leaving at random steps."""
    waiting, running = list(range(len(specs))), list[int]()
    tokens: list[list[int]] = [[] for _ in specs]
    while waiting or running:
        while waiting and (not running or (len(running) < engine.capabilities.lanes and chance.random() < 0.4)):
            start(engine, waiting[0], specs[waiting[0]], chunk=chance.randint(1, 6))
            running.append(waiting.pop(0))
        chance.shuffle(running)
        chosen = [row for row in running if chance.random() < 0.9] or running
        for row, step in zip(chosen, engine.step(chosen), strict=True):
            assert step.error is None
            tokens[row].append(step.token)
        for row in [row for row in running if len(tokens[row]) == count]:
            engine.close(row)
            running.remove(row)
    return tokens
