"""Rows with a mask provider draw only what it allows, tell it every token once, and hold nobody up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.engine import MlxEngine
from tests.engines.mlx.driving import alone, loaded, spec_of, start, together

pytestmark = pytest.mark.mlx

PROMPT = [5, 77, 300, 12, 9, 200, 31]
SAMPLINGS = [SamplingSpec(temperature=0.0, seed=0), SamplingSpec(temperature=1.2, seed=9, top_p=0.9)]


class Steps:
    """Allows the tokens of one set after another; a None allows all. Complete after the last."""

    def __init__(self, sets: Sequence[Sequence[int] | None]) -> None:
        self.sets = sets
        self.seen: list[int] = []

    def fill(self, mask: Any) -> bool:
        assert mask.shape == (10,)
        allowed = self.sets[len(self.seen)]
        if allowed is None:
            return False
        mask[:] = 0
        for token in allowed:
            mask.view("uint32")[token // 32] |= 1 << token % 32
        return True

    def advance(self, token: int) -> None:
        assert not self.complete
        allowed = self.sets[len(self.seen)]
        assert allowed is None or token in allowed
        self.seen.append(token)

    @property
    def complete(self) -> bool:
        return len(self.seen) == len(self.sets)


class Broken(Steps):
    """Fails in one of its methods from a certain token on."""

    def __init__(self, method: str, after: int) -> None:
        super().__init__([None] * 50)
        self._method = method
        self._after = after

    def fill(self, mask: Any) -> bool:
        self._fail("fill")
        return super().fill(mask)

    def advance(self, token: int) -> None:
        self._fail("advance")
        super().advance(token)

    def _fail(self, method: str) -> None:
        if method == self._method and len(self.seen) == self._after:
            raise ValueError("no such state")


@pytest.fixture(scope="module")
def engine(checkpoint: Callable[[str], Path]) -> MlxEngine:
    return loaded(checkpoint("llama"), lanes=4)


def constrained(chance: random.Random, count: int) -> list[list[int] | None]:
    return [chance.sample(range(320), 6) if chance.random() < 0.8 else None for _ in range(count)]


def run(engine: MlxEngine, provider: Steps, sampling: SamplingSpec, most: int = 50) -> list[int]:
    start(engine, 0, spec_of(PROMPT, sampling, mask=provider))
    tokens = list[int]()
    while len(tokens) < most:
        step = engine.step([0])[0]
        assert step.error is None
        tokens.append(step.token)
        if step.ended:
            break
    engine.close(0)
    return tokens


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_only_allowed_tokens_are_drawn_and_the_answer_ends_with_the_constraint(
    engine: MlxEngine, sampling: SamplingSpec
) -> None:
    for seed in range(5):
        provider = Steps(constrained(random.Random(seed), 12))
        tokens = run(engine, provider, sampling)

        assert len(tokens) == 12
        assert provider.seen == tokens


def test_a_mask_that_allows_everything_changes_nothing(engine: MlxEngine) -> None:
    for sampling in SAMPLINGS:
        free = alone(engine, spec_of(PROMPT, sampling), 10)
        assert run(engine, Steps([None] * 10), sampling) == free
        assert run(engine, Steps([range(320)] * 10), sampling) == free


def test_masked_rows_in_a_batch_give_what_they_give_alone(engine: MlxEngine) -> None:
    def specs() -> list[Any]:
        sets = [constrained(random.Random(seed), 20) for seed in range(3)]
        masked = [spec_of(PROMPT[seed:], SAMPLINGS[seed % 2], mask=Steps(sets[seed])) for seed in range(3)]
        return [*masked, spec_of(PROMPT, SAMPLINGS[1]), spec_of([7, 8])]

    expected = [alone(engine, spec, 14) for spec in specs()]

    for trial in range(3):
        assert together(engine, specs(), 14, random.Random(trial)) == expected


def test_a_row_beside_a_masked_one_runs_one_step_ahead(engine: MlxEngine) -> None:
    """The provider is asked for the next mask before this step's token is handed over."""
    provider = Steps([None] * 20)
    start(engine, 0, spec_of(PROMPT, mask=provider))
    start(engine, 1, spec_of(PROMPT))
    engine.step([0, 1])
    first = engine.step([0, 1])

    assert provider.seen[-1] == first[0].token
    assert first[0].token == first[1].token


@pytest.mark.parametrize(("method", "fails_at"), [("fill", 3), ("advance", 3)])
@pytest.mark.parametrize("others", [0, 2])
def test_a_provider_that_fails_ends_its_own_row_only(
    engine: MlxEngine, method: str, fails_at: int, others: int
) -> None:
    free = alone(engine, spec_of(PROMPT), 8)
    start(engine, 0, spec_of(PROMPT, mask=Broken(method, fails_at)))
    for row in range(1, 1 + others):
        start(engine, row, spec_of(PROMPT))
    steps = [engine.step(range(1 + others)) for _ in range(8)]

    errors = [step[0].error for step in steps]
    assert errors[:fails_at] == [None] * fails_at
    assert errors[fails_at] == "The constraint of the answer failed: no such state"
    assert [step[0].token for step in steps[:fails_at]] == free[:fails_at]
    for row in range(1, 1 + others):
        assert [step[row].token for step in steps] == free
        assert {step[row].error for step in steps} == {None}


def test_a_mask_that_allows_nothing_ends_its_own_row_only(engine: MlxEngine) -> None:
    free = alone(engine, spec_of(PROMPT), 3)
    start(engine, 0, spec_of(PROMPT, mask=Steps([None, [], None, None])))
    start(engine, 1, spec_of(PROMPT))
    steps = [engine.step([0, 1]) for _ in range(3)]

    assert steps[0][0].error is None
    assert steps[1][0].error is not None
    assert [step[1].token for step in steps] == free


def test_a_row_stepped_after_its_end_is_not_asked_again(engine: MlxEngine) -> None:
    provider = Steps([[4], [5]])
    start(engine, 0, spec_of(PROMPT, mask=provider))
    steps = [engine.step([0])[0] for _ in range(4)]

    assert [(step.token, step.ended) for step in steps[:2]] == [(4, False), (5, True)]
    assert provider.seen == [4, 5]
    assert [step.error for step in steps] == [None] * 4
