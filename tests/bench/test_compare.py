from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.compare import Measure, alternate
from bench.row import Row


def noting(calls: list[tuple[str, int]], name: str, value: float) -> Measure:
    def measure(turn: int) -> Mapping[str, float]:
        calls.append((name, turn))
        return {"decode": value + turn}

    return measure


def test_servers_take_turns() -> None:
    calls: list[tuple[str, int]] = []
    sides = [("a", noting(calls, "a", 10.0)), ("b", noting(calls, "b", 20.0))]
    rows, troubles = alternate("part", "workload", sides, 3)
    assert calls == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert rows == [Row("part", "workload", "decode", (10.0, 11.0, 12.0), (20.0, 21.0, 22.0))]
    assert troubles == []


def test_a_side_that_fails_is_told_and_ends_the_workload() -> None:
    calls: list[tuple[str, int]] = []

    def failing(turn: int) -> Mapping[str, float]:
        raise RuntimeError("no such route")

    rows, (trouble,) = alternate("part", "workload", [("a", noting(calls, "a", 1.0)), ("b", failing)], 3)
    assert rows == []
    assert "b: RuntimeError: no such route" in trouble.said
    assert calls == [("a", 0)]


def test_a_fault_of_the_bench_is_not_hidden() -> None:
    def broken(turn: int) -> Mapping[str, float]:
        raise KeyError("typo")

    with pytest.raises(KeyError):
        alternate("part", "workload", [("a", broken)], 1)
