"""A row begun from a snapshot goes on as if it had been fed the prompt, and neither it nor its donor notices."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx

from dragoman.core.errors import EngineFailure
from dragoman.core.sampling import SamplingSpec
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec
from dragoman.engines.mlx.engine import MlxEngine
from tests.engines.mlx.driving import alone, loaded, spec_of, start

pytestmark = pytest.mark.mlx

# Kernels of the first three compile for seconds; the next two have the caches of llama.
FAMILIES = [
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gemma3_text", "mamba", "falcon_h1")),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama_tied", "qwen2")),
    "llama",
    "qwen3",
    "qwen3_moe",
    "lfm2",
    "llama_dynamic_rope",
]

SEEDED = SamplingSpec(temperature=0.9, seed=17, top_p=0.95, repetition_penalty=1.3, penalty_window=64)
TRIMMABLE = {"llama", "llama_tied", "llama_dynamic_rope", "qwen2", "qwen3", "qwen3_moe"}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def engine(family: str, checkpoint: Callable[[str], Path]) -> MlxEngine:
    return loaded(checkpoint(family), lanes=4)


def prompt_of(length: int, seed: int = 1) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(3, 320) for _ in range(length)]


def kept(engine: MlxEngine, prompt: Sequence[int], fed: int, row: int = 3) -> Snapshot:
    """A snapshot of the first `fed` tokens of a prompt; its row is closed."""
    engine.open(row, spec_of(prompt))
    engine.prefill(row, fed)
    snapshot = engine.snapshot(row)
    engine.close(row)
    assert snapshot is not None
    assert snapshot.length == fed
    return snapshot


def forked(engine: MlxEngine, spec: RowSpec, snapshot: Snapshot, cached: int, count: int, row: int = 0) -> list[int]:
    engine.open(row, spec, snapshot, cached)
    if len(spec.prompt) - 1 > cached:
        engine.prefill(row, len(spec.prompt) - 1 - cached)
    tokens = [engine.step([row])[0].token for _ in range(count)]
    engine.close(row)
    return tokens


def stepped(engine: MlxEngine, rows: list[int]) -> list[int]:
    """One step of these rows: together, or one by one where the model has one lane only."""
    if engine.capabilities.lanes > 1:
        return [step.token for step in engine.step(rows)]
    return [engine.step([row])[0].token for row in rows]


@pytest.mark.parametrize("sampling", [SamplingSpec(temperature=0.0, seed=0), SEEDED], ids=["greedy", "seeded"])
def test_a_row_from_a_snapshot_gives_what_it_gives_from_scratch(engine: MlxEngine, sampling: SamplingSpec) -> None:
    prompt = prompt_of(24)
    spec = spec_of(prompt, sampling)
    cold = alone(engine, spec, 12)

    for fed in (1, 5, 13, 23):
        snapshot = kept(engine, prompt, fed)
        assert [forked(engine, spec, snapshot, fed, 12) for _ in range(2)] == [cold, cold]


def test_a_snapshot_that_can_be_cut_serves_every_shorter_prefix(engine: MlxEngine, family: str) -> None:
    prompt, other = prompt_of(24), prompt_of(9, seed=2)
    snapshot = kept(engine, prompt, 23)
    assert snapshot.trimmable is (family in TRIMMABLE)
    if not snapshot.trimmable:
        with pytest.raises(EngineFailure, match="cannot give the first 5"):
            engine.open(0, spec_of(prompt), snapshot, 5)
        return

    for cached in (1, 7, 22):
        spec = spec_of(prompt[:cached] + other)
        assert forked(engine, spec, snapshot, cached, 10) == alone(engine, spec, 10)


@pytest.mark.slow
def test_a_sliding_window_can_be_cut_until_it_wraps(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("gemma3_text"), lanes=2)
    prompt = prompt_of(12)
    whole, wrapped = kept(engine, prompt, 7, row=0), kept(engine, prompt, 8, row=0)

    assert (whole.trimmable, wrapped.trimmable) == (True, False)
    for cached in (1, 6, 7):
        spec = spec_of([*prompt[:cached], 200, 7, 31, 90])
        assert forked(engine, spec, whole, cached, 12) == alone(engine, spec, 12)


def test_donor_and_forks_run_side_by_side_without_touching_each_other(engine: MlxEngine) -> None:
    prompt = prompt_of(20)
    specs = [spec_of(prompt), spec_of([*prompt, 9, 9]), spec_of([*prompt, 250, 31, 4])]
    expected = [alone(engine, spec, 14) for spec in specs]

    engine.open(0, specs[0])
    engine.prefill(0, 19)
    snapshot = engine.snapshot(0)
    assert snapshot is not None
    tokens: list[list[int]] = [[], [], []]
    tokens[0] += [engine.step([0])[0].token for _ in range(3)]
    for row in (1, 2):
        engine.open(row, specs[row], snapshot, 19)
        engine.prefill(row, len(specs[row].prompt) - 20)
    for _ in range(11):
        for row, token in enumerate(stepped(engine, [0, 1, 2])):
            tokens[row].append(token)
    engine.close(0)
    for _ in range(3):
        for row, token in zip([1, 2], stepped(engine, [1, 2]), strict=True):
            tokens[row].append(token)
    engine.close(1)
    engine.close(2)

    assert tokens == expected
    assert forked(engine, specs[0], snapshot, 19, 14) == expected[0]


def test_a_row_of_a_batch_is_kept_without_disturbing_the_batch(engine: MlxEngine) -> None:
    prompts = [prompt_of(n, seed=n) for n in (5, 17, 11)]
    specs = [spec_of(prompt) for prompt in prompts]
    expected = [alone(engine, spec, 16) for spec in specs]
    tokens: list[list[int]] = [[], [], []]
    for row, spec in enumerate(specs):
        start(engine, row, spec)
    kept_at: list[tuple[int, Snapshot]] = []
    for step in range(16):
        for row, token in enumerate(stepped(engine, [0, 1, 2])):
            tokens[row].append(token)
        if step in (2, 3, 9):
            row = step % 3
            snapshot = engine.snapshot(row)
            assert snapshot is not None
            kept_at.append((row, snapshot))
    for row in range(3):
        engine.close(row)

    assert tokens == expected
    for row, snapshot in kept_at:
        whole = prompts[row] + expected[row]
        spec = spec_of(whole[: snapshot.length + 1])
        rest = whole[snapshot.length + 1 :]
        assert forked(engine, spec, snapshot, snapshot.length, len(rest)) == rest


def test_a_snapshot_weighs_what_it_keeps_alive(engine: MlxEngine) -> None:
    prompt = prompt_of(40)
    kept(engine, prompt, 30)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    snapshots = [kept(engine, prompt, 30) for _ in range(4)]
    mx.synchronize()
    gc.collect()
    grown = mx.get_active_memory() - before

    assert sum(snapshot.nbytes for snapshot in snapshots) <= grown
    # MLX rounds each buffer up, to a page on some devices.
    assert grown <= sum(snapshot.nbytes for snapshot in snapshots) + 4 * 64 * 1024
    del snapshots
    gc.collect()
    assert mx.get_active_memory() == before


def cancelled(engine: MlxEngine, prompt: list[int], snapshot: Snapshot, chance: random.Random) -> None:
    """Rows begun, forked, batched and kept, then closed in any order at any stage."""
    for row in range(3):
        begun = 29 if row % 2 else 0
        engine.open(row, spec_of([*prompt, 5, 6, 7]), snapshot if begun else None, begun)
        engine.prefill(row, len(prompt) + 2 - begun)
    engine.open(3, spec_of(prompt))
    engine.prefill(3, 8)
    for _ in range(chance.randint(0, 4)):
        stepped(engine, [0, 1, 2])
    engine.snapshot(1)
    for row in chance.sample(range(4), 4):
        engine.close(row)


def test_nothing_is_left_of_rows_that_were_cancelled_at_any_stage(engine: MlxEngine) -> None:
    chance = random.Random(5)
    prompt = prompt_of(30)
    snapshot = kept(engine, prompt, 29)
    held = list[int]()
    for _ in range(4):
        cancelled(engine, prompt, snapshot, chance)
        mx.synchronize()
        gc.collect()
        held.append(mx.get_active_memory())

    # The first round also fills caches of the library.
    assert max(held[1:]) <= held[0] + 64


def test_a_snapshot_is_refused_where_it_does_not_fit(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    prompt = prompt_of(8)
    snapshot = kept(engine, prompt, 7)

    for cached in (8, 9):
        with pytest.raises(EngineFailure, match=f"first {cached} of"):
            engine.open(0, spec_of([*prompt, 4, 4, 4]), snapshot, cached)
    with pytest.raises(EngineFailure, match="first 7 of a prompt of 7"):
        engine.open(0, spec_of(prompt[:7]), snapshot, 7)


def test_a_row_that_was_fed_nothing_has_no_state(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))
    engine.open(0, spec_of([5, 6]))

    assert engine.snapshot(0) is None


@pytest.mark.parametrize("length", [1, 200, 256, 257, 500])
def test_the_size_of_a_row_is_foretold(checkpoint: Callable[[str], Path], length: int) -> None:
    engine = loaded(checkpoint("llama"))
    snapshot = kept(engine, prompt_of(min(length, 499) + 2), min(length, 499))

    assert snapshot.nbytes == 2 * 2 * 2 * 16 * 4 * snapshot.length
    assert snapshot.nbytes <= engine.row_bytes(length) < snapshot.nbytes + 257 * 512
    assert engine.row_bytes(0) == 0
