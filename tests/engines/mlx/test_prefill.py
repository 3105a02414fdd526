"""Prompts read together come to what each comes to alone, whatever they hold already, and leave nothing behind."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec
from dragoman.engines.mlx.engine import MlxEngine
from dragoman.engines.mlx.lanes import can_batch
from dragoman.engines.mlx.prefill import Part, can_join, can_read_together, grouped
from dragoman.engines.mlx.row import Row
from tests.engines.mlx.driving import loaded, spec_of, start, steps_alone
from tests.support.checkpoints import write_checkpoint

pytestmark = pytest.mark.mlx

LANES = 8
TOGETHER = ["llama", "llama_tied", "qwen2", "qwen3", "qwen3_moe"]
FAMILIES = [
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gemma3_text", "mamba", "falcon_h1")),
    *TOGETHER,
    "lfm2",
]
SAMPLINGS = [
    SamplingSpec(temperature=0.0, seed=0),
    SamplingSpec(temperature=1.0, seed=11, top_k=40, top_p=0.9),
    SamplingSpec(temperature=0.0, seed=0, repetition_penalty=1.5, penalty_window=8),
]


class Counting:
    """A model that notes the shape of what it is fed; `refuses` more than one row of more than one token."""

    def __init__(self, engine: MlxEngine) -> None:
        runtime: Any = engine._ready
        self._model = runtime._model
        self.shapes: list[tuple[int, ...]] = []
        self.refuses = False
        runtime._model = self

    def __call__(self, inputs: mx.array, cache: Any) -> Any:
        self.shapes.append(tuple(inputs.shape))
        if self.refuses and min(inputs.shape) > 1:
            self._model(inputs, cache=cache)
            raise RuntimeError("no memory for so many")
        return self._model(inputs, cache=cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_model"], name)


def prompt_of(chance: random.Random, length: int) -> list[int]:
    return [chance.randrange(3, 320) for _ in range(length)]


def specs_of(chance: random.Random, lengths: Sequence[int]) -> list[RowSpec]:
    return [
        spec_of(prompt_of(chance, length), SAMPLINGS[i % len(SAMPLINGS)], logprobs=2)
        for i, length in enumerate(lengths)
    ]


def prefill_together(engine: MlxEngine, specs: Sequence[RowSpec], chance: random.Random, most: int = 1000) -> None:
    """Open the rows; read all prompts in as many rounds as it takes, each row's share of a round being random."""
    left = {row: len(spec.prompt) - 1 for row, spec in enumerate(specs)}
    for row, spec in enumerate(specs):
        engine.open(row, spec)
    while any(left.values()):
        mosts = {row: min(rest, most) for row, rest in left.items() if rest}
        work = [(row, chance.randint(max(1, mine // 2), mine)) for row, mine in mosts.items()]
        chance.shuffle(work)
        assert engine.prefill_many(work) == [[]] * len(work)
        left = {row: rest - dict(work).get(row, 0) for row, rest in left.items()}


def check_steps(engine: MlxEngine, specs: Sequence[RowSpec], expected: Sequence[Sequence[Any]], count: int) -> None:
    """All rows decode together and come to the same tokens with about the same log probabilities; closes them."""
    rows = list(range(len(specs)))
    steps = [engine.step(rows) for _ in range(count)]
    for row in rows:
        mine = [step[row] for step in steps]
        assert [step.token for step in mine] == [step.token for step in expected[row]]
        for one, other in zip(mine, expected[row], strict=True):
            assert one.logprobs is not None
            assert one.logprobs.chosen.logprob == pytest.approx(other.logprobs.chosen.logprob, abs=2e-3)
        engine.close(row)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def engine(family: str, checkpoint: Callable[[str], Path]) -> MlxEngine:
    return loaded(checkpoint(family), lanes=LANES)


@pytest.mark.parametrize("most", [1000, 6])
@pytest.mark.parametrize("trial", range(3))
def test_rows_read_together_give_what_they_give_alone(engine: MlxEngine, trial: int, most: int) -> None:
    chance = random.Random(trial)
    specs = specs_of(chance, [chance.randint(1, 40) for _ in range(chance.randint(2, LANES))])
    expected = [steps_alone(engine, spec, 8) for spec in specs]

    prefill_together(engine, specs, chance, most)

    check_steps(engine, specs, expected, 8)


def test_fresh_rows_and_begun_ones_and_forks_are_read_together(engine: MlxEngine) -> None:
    chance = random.Random(5)
    specs = specs_of(chance, [30, 31, 32, 33])
    specs[3] = spec_of([*specs[2].prompt[:12], *prompt_of(chance, 20)], logprobs=2)
    expected = [steps_alone(engine, spec, 8) for spec in specs]
    engine.open(2, specs[2])
    engine.prefill(2, 12)
    snapshot = engine.snapshot(2)
    engine.open(0, specs[0])
    engine.prefill(0, 9)
    engine.open(1, specs[1])
    engine.open(3, specs[3], snapshot, 12)

    assert engine.prefill_many([(0, 20), (1, 19), (2, 19), (3, 18)]) == [[]] * 4
    assert engine.prefill_many([(3, 1), (1, 11)]) == [[]] * 2

    check_steps(engine, specs, expected, 8)


def test_a_snapshot_taken_after_it_goes_on_alike(engine: MlxEngine) -> None:
    chance = random.Random(9)
    specs = specs_of(chance, [24, 26, 21])
    expected = [steps_alone(engine, spec, 8) for spec in specs]
    weights = list[int]()
    for row, spec in enumerate(specs):
        engine.open(row, spec)
        engine.prefill(row, 15 + row)
        alone = engine.snapshot(row)
        assert alone is not None
        weights.append(alone.nbytes)
        engine.open(row, spec)

    engine.prefill_many([(row, 15 + row) for row in range(3)])
    snapshots = [engine.snapshot(row) for row in range(3)]
    for row in range(3):
        engine.close(row)

    assert [snapshot.nbytes for snapshot in snapshots if snapshot] == weights
    for row, spec in enumerate(specs):
        engine.open(row, spec, snapshots[row], 15 + row)
    engine.prefill_many([(row, len(spec.prompt) - 16 - row) for row, spec in enumerate(specs)])
    check_steps(engine, specs, expected, 8)


def test_models_that_can_read_together_do_so(engine: MlxEngine, family: str) -> None:
    counting = Counting(engine)
    specs = specs_of(random.Random(2), [7, 7, 6, 7])
    for row, spec in enumerate(specs):
        engine.open(row, spec)

    engine.prefill_many([(0, 6), (1, 6), (2, 5), (3, 6)])

    together = family in TOGETHER or family == "gemma3_text"
    assert counting.shapes == ([(4, 6)] if together else [(1, 6), (1, 6), (1, 5), (1, 6)])
    for row in range(4):
        engine.close(row)
    runtime: Any = engine._ready
    runtime._model = counting._model


def test_what_one_row_was_read_with_is_freed_with_it(checkpoint: Callable[[str], Path]) -> None:
    """Layers end their storage at 256 tokens, so a row of exactly that length could be mistaken for all of it."""
    engine = loaded(write_wide(checkpoint), lanes=LANES)
    gc.collect()
    mx.clear_cache()
    empty = mx.get_active_memory()
    specs = specs_of(random.Random(1), [65] * LANES)
    start(engine, 0, specs[0])
    lone = mx.get_active_memory() - empty
    engine.close(0)

    for row, spec in enumerate(specs):
        engine.open(row, spec)
    engine.prefill_many([(row, 64) for row in range(LANES)])
    everything = mx.get_active_memory() - empty
    for row in range(1, LANES):
        engine.close(row)
    gc.collect()
    last = mx.get_active_memory() - empty
    engine.close(0)
    gc.collect()

    assert everything <= LANES * lone
    assert last <= lone
    assert mx.get_active_memory() == empty


def write_wide(checkpoint: Callable[[str], Path]) -> Path:
    """A model whose caches are large beside what allocation rounds up."""
    folder = checkpoint("llama").parent / "wide"
    return write_checkpoint(folder, "llama", seed=3, head_dim=64, hidden_size=256, num_key_value_heads=4)


def test_rows_are_read_alone_when_the_device_refuses(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"), lanes=LANES)
    specs = specs_of(random.Random(4), [20, 22, 24])
    expected = [steps_alone(engine, spec, 8) for spec in specs]
    for row, spec in enumerate(specs):
        engine.open(row, spec)
    engine.prefill_many([(0, 9), (1, 9), (2, 9)])
    counting = Counting(engine)
    counting.refuses = True

    assert engine.prefill_many([(0, 10), (1, 12), (2, 14)]) == [[]] * 3

    assert counting.shapes[1:] == [(1, 10), (1, 12), (1, 14)]
    check_steps(engine, specs, expected, 8)


def test_a_row_that_cannot_fails_alone(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"), lanes=LANES)
    specs = specs_of(random.Random(4), [20, 20, 20])
    expected = [steps_alone(engine, spec, 4) for spec in specs]
    for row, spec in enumerate(specs):
        engine.open(row, spec)

    outcomes = engine.prefill_many([(0, 19), (5, 19), (1, 20), (2, 19)])

    assert [str(outcome) for outcome in outcomes] == [
        "[]",
        "Row 5 is not open.",
        "Row 1 cannot prefill 20 tokens at 0 of 20.",
        "[]",
    ]
    assert engine.prefill_many([(1, 19)]) == [[]]
    check_steps(engine, specs, expected, 4)
    with pytest.raises(Exception, match="twice"):
        engine.prefill_many([(0, 1), (0, 1)])


def test_a_scored_prompt_keeps_its_scores_among_others(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"), lanes=LANES)
    prompt = prompt_of(random.Random(4), 20)
    scored = spec_of(prompt, prompt_logprobs=1)
    engine.open(0, scored)
    expected = engine.prefill(0, 19)
    engine.open(0, scored)
    engine.open(1, spec_of(prompt))
    engine.open(2, spec_of(prompt))

    outcomes = engine.prefill_many([(0, 19), (1, 19), (2, 19)])

    assert outcomes == [expected, [], []]


@pytest.mark.parametrize(("bits", "begin"), [(8, 0), (8, 12)])
def test_quantised_rows_are_read_together(checkpoint: Callable[[str], Path], bits: int, begin: int) -> None:
    engine = loaded(write_wide(checkpoint), lanes=LANES, kv_bits=bits, kv_start=begin)
    chance = random.Random(3)
    specs = specs_of(chance, [20, 22, 9, 30])
    expected = [steps_alone(engine, spec, 8) for spec in specs]
    counting = Counting(engine)

    prefill_together(engine, specs, chance, most=10)

    assert any(rows > 1 for rows, _ in counting.shapes)
    check_steps(engine, specs, expected, 8)


def row_of(fed: int, caches: list[Any] | None = None, **fields: Any) -> Row:
    return Row(spec_of([5] * 4000, **fields), [KVCache()] if caches is None else caches, fed)


def counts_of(groups: Sequence[Sequence[Part]]) -> list[list[int]]:
    return [[part.count for part in group] for group in groups]


def test_groups_waste_little_and_stay_small() -> None:
    chance = random.Random(0)
    for _ in range(200):
        parts = [Part(row_of(chance.choice([0, 0, 0, 90, 700, 1500])), chance.randint(1, 256)) for _ in range(12)]
        for group in grouped(parts):
            total, padded = sum(part.count for part in group), len(group) * max(part.count for part in group)
            assert len(group) > 1
            assert padded <= min(512, 1.25 * total)
            held = [part.row.fed for part in group]
            assert max(held) - min(held) < 512


def test_what_fits_is_grouped() -> None:
    assert counts_of(grouped([Part(row_of(0), count) for count in [37] * 8])) == [[37] * 8]
    assert counts_of(grouped([Part(row_of(0), count) for count in (10, 100, 9, 90, 30)])) == [[100, 90], [10, 9]]
    assert grouped([Part(row_of(0), 100), Part(row_of(600), 100)]) == []


def test_a_window_that_would_overflow_is_not_shared() -> None:
    def parts(count: int) -> list[Part]:
        return [Part(row_of(fed, [KVCache(), RotatingKVCache(64)]), count) for fed in (20, 0)]

    assert counts_of(grouped(parts(43))) == [[43, 43]]
    assert grouped(parts(44)) == []


def test_what_cannot_be_padded_or_is_long_is_read_alone() -> None:
    assert can_join(Part(row_of(0), 256))
    assert not can_join(Part(row_of(0), 257))
    assert not can_join(Part(row_of(2000), 49))
    assert not can_join(Part(row_of(0, [KVCache(), ArraysCache(2)]), 5))
    assert not can_join(Part(row_of(0, prompt_logprobs=0), 5))


def test_a_model_that_mistakes_padding_is_found_out(checkpoint: Callable[[str], Path]) -> None:
    """One that decodes well in a batch, but reads prompts of several rows as if each were the first."""
    runtime: Any = loaded(checkpoint("llama"), lanes=2)._ready

    def mistaken(inputs: mx.array, cache: Any) -> Any:
        if min(inputs.shape) > 1:
            inputs = mx.broadcast_to(inputs[:1], inputs.shape)
        return runtime._model(inputs, cache=cache)

    assert can_read_together(runtime._model, runtime._new_caches)
    assert can_batch(mistaken, runtime._new_caches)
    assert not can_read_together(mistaken, runtime._new_caches)
