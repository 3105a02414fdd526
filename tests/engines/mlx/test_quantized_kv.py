"""Rows with quantised caches: alone as in a batch, whole as in chunks, forked as cold, and near to plain ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask, scaled_dot_product_attention
from mlx_lm.models.cache import KVCache

from dragoman.core.errors import EngineFailure
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.caches import packed, picked
from dragoman.engines.mlx.engine import MlxEngine
from dragoman.engines.mlx.packed import PackedBatch, PackedCache
from tests.engines.mlx.driving import alone, loaded, spec_of, start, together
from tests.support.checkpoints import write_checkpoint

pytestmark = pytest.mark.mlx

WIDE = {"head_dim": 64, "hidden_size": 256}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Families with heads wide enough for a group of 64."""
    root = tmp_path_factory.mktemp("wide")
    mixed = WIDE | {"layer_types": ["conv", "full_attention"], "block_dim": 256}
    return {
        "llama": write_checkpoint(root / "llama", "llama", seed=3, **WIDE),
        "qwen3": write_checkpoint(root / "qwen3", "qwen3", seed=3, **WIDE, num_key_value_heads=4),
        "lfm2": write_checkpoint(root / "lfm2", "lfm2", seed=3, **mixed),
    }


def prompts(*lengths: int) -> list[list[int]]:
    chance = random.Random(11)
    return [[chance.randrange(3, 320) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize(
    ("family", "bits", "begin"),
    [("llama", 8, 0), ("qwen3", 4, 0), ("lfm2", 8, 0), ("llama", 8, 12), ("lfm2", 4, 12)],
)
def test_rows_together_give_what_they_give_alone(folders: dict[str, Path], family: str, bits: int, begin: int) -> None:
    engine = loaded(folders[family], lanes=3, kv_bits=bits, kv_start=begin)
    samplings = [SamplingSpec(temperature=0.0, seed=0), SamplingSpec(temperature=0.8, seed=5, top_k=50)]
    specs = [spec_of(prompt, samplings[i % 2]) for i, prompt in enumerate(prompts(1, 14, 3, 22))]

    expected = [alone(engine, spec, 14) for spec in specs]

    assert engine.capabilities.lanes == 3
    assert [alone(engine, spec, 14, chunk=5) for spec in specs] == expected
    for trial in range(2):
        assert together(engine, specs, 14, random.Random(trial)) == expected


@pytest.mark.parametrize("begin", [0, 12])
def test_a_row_from_a_quantised_snapshot_gives_what_it_gives_from_scratch(folders: dict[str, Path], begin: int) -> None:
    engine = loaded(folders["llama"], lanes=2, kv_bits=8, kv_start=begin)
    spec = spec_of(prompts(24)[0])
    cold = alone(engine, spec, 12)
    for fed in (4, 12, 23):
        engine.open(1, spec)
        engine.prefill(1, fed)
        snapshot = engine.snapshot(1)
        assert snapshot is not None
        assert snapshot.trimmable
        engine.close(1)
        engine.open(0, spec, snapshot, fed)
        if fed < 23:
            engine.prefill(0, 23 - fed)
        assert [engine.step([0])[0].token for _ in range(12)] == cold


def test_what_is_kept_and_foretold_is_smaller(folders: dict[str, Path]) -> None:
    sizes = {bits: loaded(folders["llama"], lanes=1, kv_bits=bits) for bits in (0, 8, 4)}
    weights = {bits: _kept_bytes(engine) for bits, engine in sizes.items()}

    # Codes, and a scale and a bias in float32 for each group of 64.
    assert weights[8] / weights[0] == (8 + 1) / 32
    assert weights[4] / weights[0] == (4 + 1) / 32
    assert [sizes[bits].row_bytes(256) // 256 for bits in (0, 8, 4)] == [weights[bits] // 40 for bits in (0, 8, 4)]


def _kept_bytes(engine: MlxEngine) -> int:
    start(engine, 0, spec_of(prompts(41)[0]))
    snapshot = engine.snapshot(0)
    engine.close(0)
    assert snapshot is not None
    assert snapshot.length == 40
    return snapshot.nbytes


def test_the_size_before_and_after_quantisation_is_told(folders: dict[str, Path]) -> None:
    late = loaded(folders["llama"], kv_bits=4, kv_start=100)
    plain, early = loaded(folders["llama"]), loaded(folders["llama"], kv_bits=4)

    assert late.row_bytes(99) == plain.row_bytes(99)
    assert late.row_bytes(100) == early.row_bytes(100)


def test_eight_bits_are_near_to_none(folders: dict[str, Path]) -> None:
    spec = spec_of(prompts(30)[0], logprobs=0)
    values = [_first_logprob(loaded(folders["llama"], kv_bits=bits), spec) for bits in (0, 8)]

    assert values[0] != values[1]
    assert values[0] == pytest.approx(values[1], abs=0.1)


def _first_logprob(engine: MlxEngine, spec: Any) -> float:
    start(engine, 0, spec)
    step = engine.step([0])[0]
    assert step.logprobs is not None
    return step.logprobs.chosen.logprob


@pytest.mark.parametrize("changes", [{"head_dim": 16}, {"head_dim": 48}])
def test_heads_that_do_not_divide_into_groups_are_refused_at_load(tmp_path: Path, changes: dict[str, int]) -> None:
    folder = write_checkpoint(tmp_path / "narrow", "llama", **changes)

    with pytest.raises(EngineFailure, match=r"does not run with a quantised key-value cache.*kv_bits 0"):
        loaded(folder, kv_bits=8)


@pytest.mark.slow
def test_a_model_without_keys_and_values_is_refused_at_load(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="no key-value cache that can be quantised"):
        loaded(write_checkpoint(tmp_path / "mamba", "mamba"), kv_bits=8)


def drawn(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def filled(lengths: Sequence[int], bits: int = 8) -> list[PackedCache]:
    caches = []
    for length in lengths:
        cache = PackedCache(32, bits)
        cache.update_and_fetch(drawn(1, 2, length, 32), drawn(1, 2, length, 32))
        caches.append(cache)
    return caches


def held(cache: PackedCache) -> list[list[Any]]:
    keys, values = cache.keys_and_values()
    return [np.array(part).tolist() for part in (*keys, *values)]


def test_a_batch_gives_every_row_back_after_any_changes() -> None:
    lengths = [5, 300, 2, 40]
    before = [held(cache) for cache in filled(lengths)]
    batch = PackedCache.merge(filled(lengths)[:2])
    batch.extend(PackedCache.merge(filled(lengths)[2:3]))
    batch.extend(PackedBatch.merge(filled(lengths)[3:]))

    assert [held(batch.extract(i)) for i in range(4)] == before
    assert [held(picked(batch, i, length)) for i, length in enumerate(lengths)] == before
    batch.filter(mx.array([3, 0]))
    assert [held(batch.extract(i)) for i in range(2)] == [before[3], before[0]]
    assert batch.size() == 40
    assert batch.left_padding.tolist() == [0, 35]
    assert batch.offset.tolist() == [40, 5]


def test_empty_rows_can_join() -> None:
    full, empty = filled([3])[0], PackedCache(32, 8)
    batch = PackedCache.merge([empty, full])
    batch.extend(PackedCache.merge([PackedCache(32, 8)]))

    batch.update_and_fetch(drawn(3, 2, 1, 32), drawn(3, 2, 1, 32))
    assert batch.offset.tolist() == [1, 4, 1]
    assert batch.left_padding.tolist() == [3, 0, 3]


def test_attention_over_a_padded_batch_is_that_over_each_row() -> None:
    lengths = [5, 12]
    caches = filled(lengths)
    batch = PackedCache.merge(caches)
    keys, values, queries = drawn(2, 2, 1, 32), drawn(2, 2, 1, 32), drawn(2, 4, 1, 32)
    mask = batch.make_mask(1)
    # Its queries are scaled in place.
    together = scaled_dot_product_attention(queries[...], *batch.update_and_fetch(keys, values), batch, 0.2, mask)

    for i, cache in enumerate(caches):
        line = slice(i, i + 1)
        fetched = cache.update_and_fetch(keys[line], values[line])
        alone = scaled_dot_product_attention(queries[line], *fetched, cache, 0.2, None)
        assert np.allclose(np.array(together[line]), np.array(alone), atol=1e-5)


def test_a_plain_cache_is_quantised_as_mlx_lm_does() -> None:
    plain = KVCache()
    plain.update_and_fetch(drawn(1, 2, 9, 64), drawn(1, 2, 9, 64))
    ours, theirs = packed([plain], 64, 8)[0], plain.to_quantized(64, 8)

    assert ours.offset == theirs.offset == 9
    for mine, other in zip((*ours.keys_and_values()[0],), theirs.keys_and_values()[0], strict=True):
        assert np.array(mine).tolist() == np.array(other).tolist()
    assert create_causal_mask(3, 9).tolist() == ours.make_mask(3, return_array=True).tolist()
    assert ours.make_mask(1) is None
    assert ours.make_mask(3) == "causal"
    assert ours.trim(20) == 9
