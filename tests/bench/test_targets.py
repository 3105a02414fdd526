from __future__ import annotations

import pytest

from bench.against_llamacpp import PART
from bench.against_llamacpp import WORKLOADS as LLAMACPP
from bench.against_mlx import settings
from bench.grammar import PART as GRAMMAR
from bench.grammar import WORKLOADS as CONSTRAINED
from bench.part import Options
from bench.row import METRICS, Row
from bench.serving import STREAMS
from bench.targets import TARGETS, Target, Verdict, verdicts

FASTER = Target("decode", "small, equal", "1 stream", "decode", "at least", 1.5)
SOONER = Target("time", "small, equal", "shared prefix", "seconds", "at most", 0.4)


@pytest.mark.parametrize(
    ("target", "value", "reached"),
    [
        (FASTER, 1.5, True),
        (FASTER, 1.49, False),
        (SOONER, 0.4, True),
        (SOONER, 0.41, False),
        (SOONER, None, None),
    ],
)
def test_bounds(target: Target, value: float | None, reached: bool | None) -> None:
    verdict = Verdict(target, value)
    assert verdict.reached is reached
    assert verdict.line().startswith({True: "pass", False: "FAIL", None: "skip"}[reached])


def test_the_median_ratio_decides() -> None:
    rows = [Row("small, equal", "1 stream", "decode", (10.0, 30.0, 16.0), (10.0, 10.0, 10.0))]
    (verdict, missing) = verdicts(rows, (FASTER, SOONER))
    assert verdict.value == 1.6
    assert missing.value is None


def test_without_a_peer_our_own_figure_decides() -> None:
    own = Target("chunks", "serving", "16 streams", "chunks", "at least", 10_000)
    (verdict,) = verdicts([Row("serving", "16 streams", "chunks", (9_000.0, 12_000.0, 13_000.0))], (own,))
    assert verdict.value == 12_000


def test_a_full_run_measures_every_target() -> None:
    """Otherwise a renamed part or workload would silently turn a target into `not measured`."""
    measured = {(part, name) for model in ("small", "smollm2") for part, name in settings(model, Options())}
    measured |= {("serving", f"{count} stream{'s' * (count > 1)}") for count in STREAMS}
    measured |= {(PART, name) for name in LLAMACPP}
    measured |= {(GRAMMAR, name) for name in CONSTRAINED}
    for target in TARGETS:
        assert (target.part, target.workload) in measured, target
        assert target.metric in METRICS
