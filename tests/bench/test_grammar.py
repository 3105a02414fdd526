"""Walks through masks of a small vocabulary: every answer of the bench is one its constraint allows."""

from __future__ import annotations

from bench.grammar import WALKS, fill_times
from bench.row import METRICS
from tests.grammar.rig import COMPILER, TOKENIZER, accepts


def test_every_walk_is_allowed_to_its_end() -> None:
    for name, (constraint, answer) in WALKS.items():
        assert accepts(COMPILER.compile(constraint), answer), name


def test_every_mask_is_timed() -> None:
    rows = fill_times(COMPILER, TOKENIZER, 1)
    assert {row.workload for row in rows} == {*WALKS, "all masks"}
    assert all(row.metric in METRICS and row.ours[0] > 0 for row in rows)
