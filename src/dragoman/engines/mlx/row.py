"""One sequence being decoded: its tokens, its cache while it runs alone, its undelivered results. Runs nothing."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec.structs import replace

from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.mlx.constraint import Constraint

LayerCaches = list[Any]
"""One mlx-lm cache object per layer; their classes differ by model and are only ever asked to merge, filter, …"""


class Result(Protocol):
    """A draw for several rows, perhaps still being computed."""

    def step_of(self, position: int) -> RowStep:
        """Wait for the draw and give the entry at `position`."""
        ...


class Row:
    """State of one open row.

    `tokens` is the prompt and every delivered token; `fed` how many of them the cache has seen; `drawn` counts the
    draws begun, delivered or not, and is the step of the next draw. `caches` is None while a batch holds them;
    `packed` tells whether they are quantised. `memory` is what the sampler keeps of earlier draws beside their tokens.
    """

    __slots__ = ("caches", "closed", "constraint", "drawn", "fed", "memory", "packed", "results", "spec", "tokens")

    def __init__(self, spec: RowSpec, caches: LayerCaches, fed: int = 0, constraint: Constraint | None = None) -> None:
        self.spec = spec
        self.tokens = list(spec.prompt)
        self.caches: LayerCaches | None = caches
        self.constraint = constraint
        self.packed = False
        self.fed = fed
        self.drawn = 0
        self.closed = False
        self.memory: object | None = None
        self.results: list[tuple[Result, int]] = []

    @property
    def prefilled(self) -> bool:
        """Whether only the newest token is left to feed."""
        return self.fed >= len(self.spec.prompt) - 1

    def deliver(self) -> RowStep:
        """The oldest undelivered result; waits for it."""
        result, position = self.results.pop(0)
        step = result.step_of(position)
        if self.constraint is not None and step.error is None:
            step = _judged(self.constraint, self._delivered, step)
        self.tokens.append(step.token)
        return step

    def inform(self, constraint: Constraint) -> None:
        """Tell the constraint the tokens drawn so far, delivered or not; waits for them."""
        for index, (result, position) in enumerate(self.results, self._delivered):
            step = result.step_of(position)
            if step.error is None:
                constraint.learn(index, step.token)

    @property
    def _delivered(self) -> int:
        return len(self.tokens) - len(self.spec.prompt)


def _judged(constraint: Constraint, index: int, step: RowStep) -> RowStep:
    constraint.learn(index, step.token)
    fault = constraint.fault(index)
    if fault is not None:
        return replace(step, error=fault)
    return replace(step, ended=True) if constraint.complete else step
