"""One sequence being decoded: its tokens, its cache while it runs alone, its undelivered results. Runs nothing."""

from __future__ import annotations

from typing import Any, Protocol

from dragoman.engines.base import RowSpec, RowStep

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
    draws begun, delivered or not, and is the step of the next draw. `caches` is None while a batch holds them.
    """

    __slots__ = ("caches", "closed", "drawn", "fed", "results", "spec", "tokens")

    def __init__(self, spec: RowSpec, caches: LayerCaches) -> None:
        self.spec = spec
        self.tokens = list(spec.prompt)
        self.caches: LayerCaches | None = caches
        self.fed = 0
        self.drawn = 0
        self.closed = False
        self.results: list[tuple[Result, int]] = []

    @property
    def prefilled(self) -> bool:
        """Whether only the newest token is left to feed."""
        return self.fed >= len(self.spec.prompt) - 1

    def deliver(self) -> RowStep:
        """The oldest undelivered result; waits for it."""
        result, position = self.results.pop(0)
        step = result.step_of(position)
        self.tokens.append(step.token)
        return step
