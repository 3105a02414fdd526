"""What a measurement is, and how several of them become ratios. Knows no server and no clock."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CPU_TIME = "cpu time"
"""Measured beside a workload's own metrics; the table has it as a column."""

METRICS: Mapping[str, tuple[str, bool]] = {
    "decode": ("tok/s", True),
    "prefill": ("tok/s", True),
    "throughput": ("tok/s", True),
    "seconds": ("s", False),
    "first": ("s", False),
    "gap p50": ("ms", False),
    "gap p99": ("ms", False),
    "chunks": ("chunks/s", True),
    "cpu": ("µs/chunk", False),
    "mask p50": ("µs", False),
    "mask p99": ("µs", False),
    "step": ("ms", False),
    CPU_TIME: ("s", False),
}
"""Unit of each metric and whether more is better."""


@dataclass(frozen=True)
class Spread:
    """Least, middle and greatest of several values."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Row:
    """One metric of one workload, measured once a round. `peer` is empty where there is nobody to compare with."""

    part: str
    workload: str
    metric: str
    ours: tuple[float, ...]
    peer: tuple[float, ...] = ()

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ours divided by the peer's of the same round; rounds in which the peer measured nothing are left out."""
        return tuple(ours / peer for ours, peer in zip(self.ours, self.peer, strict=False) if peer > 0)


@dataclass(frozen=True)
class Trouble:
    """A workload that could not be measured, with what was said."""

    part: str
    workload: str
    said: str


def spread(values: Sequence[float]) -> Spread:
    """Raises ValueError for no values."""
    if not values:
        raise ValueError("nothing was measured")
    return Spread(min(values), statistics.median(values), max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile, `share` from 0 to 1. Raises ValueError for no values."""
    if not values:
        raise ValueError("nothing was measured")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def rows_of(
    part: str, workload: str, ours: Sequence[Mapping[str, float]], peer: Sequence[Mapping[str, float]] = ()
) -> list[Row]:
    """The rounds of one workload, metric by metric; a metric that one of them lacks is left out."""
    return [
        Row(part, workload, metric, tuple(one[metric] for one in ours), tuple(one[metric] for one in peer))
        for metric in ours[0]
        if all(metric in one for one in (*ours, *peer))
    ]
