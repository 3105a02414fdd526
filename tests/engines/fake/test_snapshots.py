"""The scripted engine's snapshots, prompt log probabilities, masks and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript

PROMPT = tuple(b"the interpreter at the court")
SEEDED = SamplingSpec(temperature=1.0, seed=4)


def spec_of(prompt: tuple[int, ...] = PROMPT, **fields: Any) -> RowSpec:
    return RowSpec(prompt=prompt, sampling=fields.pop("sampling", SEEDED), **fields)


def answer(engine: FakeEngine, row: int, count: int = 8) -> list[int]:
    return [engine.step([row])[0].token for _ in range(count)]


def cold(engine: FakeEngine, spec: RowSpec) -> list[int]:
    engine.open(0, spec)
    engine.prefill(0, len(spec.prompt) - 1)
    tokens = answer(engine, 0)
    engine.close(0)
    return tokens


def test_a_row_from_a_snapshot_gives_what_it_gives_from_scratch() -> None:
    engine = FakeEngine(FakeScript(default="logits"))
    expected = cold(engine, spec_of())
    engine.open(0, spec_of())
    engine.prefill(0, 10)
    snapshot = engine.snapshot(0)
    assert snapshot is not None
    assert (snapshot.length, snapshot.nbytes, snapshot.trimmable) == (10, 640, True)
    before = engine.prefilled_tokens

    for row, cached in ((1, 10), (2, 4)):
        engine.open(row, spec_of(), snapshot, cached)
        engine.prefill(row, len(PROMPT) - 1 - cached)
        assert answer(engine, row) == expected
    engine.prefill(0, len(PROMPT) - 11)

    assert answer(engine, 0) == expected
    assert engine.prefilled_tokens - before == 3 * (len(PROMPT) - 1) - 24


def test_a_snapshot_while_decoding_holds_the_tokens_that_were_fed() -> None:
    engine = FakeEngine(FakeScript(default="logits"))
    engine.open(0, spec_of())
    assert engine.snapshot(0) is None
    engine.prefill(0, len(PROMPT) - 1)
    tokens = answer(engine, 0, 5)
    snapshot = engine.snapshot(0)

    assert snapshot is not None
    assert snapshot.length == len(PROMPT) + 4
    longer = spec_of((*PROMPT, *tokens))
    expected = cold(FakeEngine(FakeScript(default="logits")), longer)
    engine.open(1, longer, snapshot, snapshot.length)
    assert answer(engine, 1) == expected


@pytest.mark.parametrize(
    ("prompt", "cached", "fault"),
    [
        (PROMPT, 11, "11 cached tokens out of 10"),
        (PROMPT, 9, "cannot be cut"),
        (PROMPT[:10], 10, "10 cached tokens of a prompt of 10"),
        ((1, *PROMPT[1:]), 10, "another prompt"),
    ],
)
def test_a_wrong_use_of_a_snapshot_shows(prompt: tuple[int, ...], cached: int, fault: str) -> None:
    engine = FakeEngine(FakeScript(default="logits", trimmable=False))
    engine.open(0, spec_of())
    engine.prefill(0, 10)
    snapshot = engine.snapshot(0)

    with pytest.raises(RuntimeError, match=fault):
        engine.open(1, spec_of(prompt), snapshot, cached)
    with pytest.raises(RuntimeError, match="reports its prompt"):
        engine.open(1, spec_of(prompt_logprobs=0), snapshot, 10)
    with pytest.raises(RuntimeError, match="without a snapshot"):
        engine.open(1, spec_of(), None, 3)


def test_the_script_says_whether_state_can_be_kept_and_what_it_weighs() -> None:
    engine = FakeEngine(FakeScript(snapshots=False, token_bytes=1000))
    engine.open(0, spec_of())
    engine.prefill(0, 10)

    assert engine.snapshot(0) is None
    assert engine.row_bytes(12) == 12_000


def test_prompt_logprobs_are_those_of_each_next_token() -> None:
    engine = FakeEngine(FakeScript(default="echo"))
    greedy = SamplingSpec(temperature=0.0, seed=1)
    engine.open(0, spec_of(prompt_logprobs=3, sampling=greedy))
    given = [*engine.prefill(0, 5), *engine.prefill(0, len(PROMPT) - 6)]

    assert [entry.chosen.id for entry in given] == list(PROMPT[1:])
    assert {len(entry.top) for entry in given} == {3}
    toy = FakeEngine(FakeScript(default="logits"))
    for length in (1, 7, 20):
        toy.open(0, spec_of(PROMPT[:length], sampling=greedy, logprobs=3))
        if length > 1:
            assert toy.prefill(0, length - 1) == ()
        step = toy.step([0])[0]
        assert step.logprobs is not None
        assert step.logprobs.top == given[length - 1].top
        toy.close(0)


class Letters:
    """Allows only certain letters, and ends after some."""

    def __init__(self, letters: bytes, count: int) -> None:
        self._letters = letters
        self._left = count
        self.seen = b""

    def fill(self, mask: Any) -> bool:
        words = np.zeros_like(mask).view(np.uint32)
        for letter in self._letters:
            words[letter // 32] |= np.uint32(1 << letter % 32)
        mask[:] = words.view(np.int32)
        return bool(self._letters)

    def advance(self, token: int) -> None:
        self.seen += bytes([token])
        self._left -= 1

    @property
    def complete(self) -> bool:
        return self._left == 0


def test_masks_bind_the_toy_logits_and_end_the_answer() -> None:
    engine = FakeEngine(FakeScript(default="logits"))
    provider = Letters(b"xz\x7f", 6)
    engine.open(0, spec_of(mask=provider))
    engine.prefill(0, len(PROMPT) - 1)
    steps = [engine.step([0])[0] for _ in range(6)]

    assert set(provider.seen) <= set(b"xz\x7f")
    assert [step.token for step in steps] == list(provider.seen)
    assert [step.ended for step in steps] == [False] * 5 + [True]


def test_a_mask_that_is_not_filled_allows_everything() -> None:
    engine = FakeEngine(FakeScript(default="logits"))
    expected = cold(engine, spec_of())

    assert cold(engine, spec_of(mask=Letters(b"", 100))) == expected


def test_scripted_pieces_give_way_to_the_mask() -> None:
    engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=("a", "q", "c")),)))
    provider = Letters(b"aq", 3)
    engine.open(0, spec_of(mask=provider))
    engine.prefill(0, len(PROMPT) - 1)

    steps = [engine.step([0])[0] for _ in range(3)]
    assert [step.token for step in steps[:2]] == list(b"aq")
    assert steps[2].token in b"aq"
    assert [step.ended for step in steps] == [False, False, True]
    assert provider.seen == bytes(step.token for step in steps)
