"""The speeds to reach, and whether a run reached them. Knows how rows are named, not how they are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.row import Row, spread


@dataclass(frozen=True)
class Target:
    """A bound on the median: of the ratio to the peer, or of our own value where there is no peer."""

    what: str
    part: str
    workload: str
    metric: str
    kind: Literal["at least", "at most"]
    bound: float


@dataclass(frozen=True)
class Verdict:
    """`value` is None where the run did not measure it."""

    target: Target
    value: float | None

    @property
    def reached(self) -> bool | None:
        """None: not measured."""
        if self.value is None:
            return None
        return self.value >= self.target.bound if self.target.kind == "at least" else self.value <= self.target.bound

    def line(self) -> str:
        """For people: verdict, measured value, bound."""
        word = {None: "skip", True: "pass", False: "FAIL"}[self.reached]
        value = "not measured" if self.value is None else f"{self.value:.2f}"
        bound = f"{self.target.kind} {self.target.bound:g}"
        return f"{word}  {self.target.what} ({self.target.part}): {value}, to reach: {bound}"


def _for(model: str) -> tuple[Target, ...]:
    default, equal = f"{model}, default", f"{model}, equal"
    return (
        Target("1 stream, decode", default, "1 stream", "decode", "at least", 1.5),
        Target("1 stream, prefill", default, "long prompt", "prefill", "at least", 5),
        Target("1 stream, decode", equal, "1 stream", "decode", "at least", 1),
        Target("1 stream, prefill", equal, "long prompt", "prefill", "at least", 1),
        Target("8 streams with explicit seeds", equal, "8 seeded", "throughput", "at least", 3),
        Target("8 streams, greedy", equal, "8 streams", "throughput", "at least", 1),
        Target("8 streams, sampled, unseeded", equal, "8 sampled", "throughput", "at least", 1),
    )


_LLAMACPP = (
    *(
        Target(f"{streams} at once, tokens/s", "llamacpp", streams, "throughput", "at least", 0.95)
        for streams in ("1 stream", "4 streams", "8 streams")
    ),
    Target("8 agents sharing a cold 1,200-token prefix, time", "llamacpp", "8 agents", "seconds", "at most", 0.25),
    Target("first token after a restart with --cache-dir", "llamacpp", "restart", "first", "at most", 0.15),
)
"""Ratios to llama.cpp's own server; of the restart, to the same server without what it has kept."""

TARGETS: tuple[Target, ...] = (
    *_LLAMACPP,
    *_for("small"),
    Target(
        "8 requests sharing a cold 512-token prefix, time", "small, equal", "shared prefix", "seconds", "at most", 0.4
    ),
    *_for("smollm2"),
    Target("serving layer, chunks/s", "serving", "16 streams", "chunks", "at least", 10_000),
    Target("a mask of the starter model's vocabulary, median µs", "grammar", "all masks", "mask p50", "at most", 200),
    Target("a step with a grammar, llama.cpp", "grammar", "llama.cpp", "step", "at most", 1.1),
    Target("a step with a grammar, MLX", "grammar", "mlx", "step", "at most", 1.1),
    Target("serving layer, CPU µs per chunk, whole process", "serving", "16 streams", "cpu", "at most", 80),
)
"""Ratios are ours divided by the peer's: mlx_lm.server, or llama.cpp's own server."""


def verdicts(rows: Sequence[Row], targets: Sequence[Target] = TARGETS) -> list[Verdict]:
    """All targets in order."""
    found = {(row.part, row.workload, row.metric): row for row in rows}
    return [Verdict(target, _value(found.get((target.part, target.workload, target.metric)))) for target in targets]


def _value(row: Row | None) -> float | None:
    values = () if row is None else row.ratios if row.peer else row.ours
    return spread(values).median if values else None
