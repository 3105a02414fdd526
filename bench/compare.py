"""Runs workloads against two servers in turn: ours, theirs, ours, theirs. Knows neither server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bench.row import Row, Trouble, rows_of

Measure = Callable[[int], Mapping[str, float]]
"""Measures one server in the round of that number."""

FAULTS = (RuntimeError, OSError, ValueError, asyncio.IncompleteReadError)
"""What a server that cannot do a workload leads to; anything else is a fault of the bench."""


def alternate(
    part: str, workload: str, sides: Sequence[tuple[str, Measure]], rounds: int
) -> tuple[list[Row], list[Trouble]]:
    """Rows of one workload, first side first. A side that fails ends the workload and is told as trouble."""
    measured: list[list[Mapping[str, float]]] = [[] for _ in sides]
    for turn in range(rounds):
        for done, (name, measure) in zip(measured, sides, strict=True):
            try:
                done.append(measure(turn))
            except FAULTS as error:
                return [], [Trouble(part, workload, f"{name}: {type(error).__name__}: {error}")]
    return rows_of(part, workload, *measured), []
