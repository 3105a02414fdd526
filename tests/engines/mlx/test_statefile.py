"""A row begun from a state that was written and read goes on as one begun from the state itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import StateFiles
from dragoman.engines.mlx.engine import MlxEngine
from dragoman.engines.mlx.statefile import read_caches
from tests.engines.mlx.driving import loaded, spec_of
from tests.engines.mlx.test_quantized_kv import WIDE
from tests.engines.mlx.test_snapshots import kept, prompt_of
from tests.support.checkpoints import write_checkpoint

pytestmark = pytest.mark.mlx

SEEDED = SamplingSpec(temperature=0.9, seed=17)
FAMILIES = [
    "llama",
    "lfm2",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gemma3_text", "mamba", "falcon_h1")),
]


def drawn(engine: MlxEngine, prompt: list[int], snapshot: object, cached: int) -> list[int]:
    engine.open(0, spec_of(prompt, SEEDED), snapshot, cached)  # type: ignore[arg-type]
    if len(prompt) - cached > 1:
        engine.prefill(0, len(prompt) - cached - 1)
    tokens = [engine.step([0])[0].token for _ in range(12)]
    engine.close(0)
    return tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_that_was_written(family: str, checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    engine = loaded(checkpoint(family), lanes=4)
    prompt = prompt_of(70)
    snapshot = kept(engine, prompt, 60)
    assert isinstance(engine, StateFiles)
    engine.write_state(snapshot, 60, tmp_path / "a.safetensors")
    again = engine.read_state(tmp_path / "a.safetensors", 60)
    assert (again.length, again.trimmable) == (snapshot.length, snapshot.trimmable)
    assert drawn(engine, prompt, again, 60) == drawn(engine, prompt, snapshot, 60)
    if snapshot.trimmable:
        engine.write_state(snapshot, 40, tmp_path / "b.safetensors")
        assert drawn(engine, prompt, engine.read_state(tmp_path / "b.safetensors", 40), 40) == drawn(
            engine, prompt, snapshot, 40
        )


def test_quantised_caches(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "wide", "llama", seed=3, **WIDE)
    engine, plain = loaded(folder, lanes=2, kv_bits=8), loaded(folder, lanes=2)
    prompt = prompt_of(40)
    snapshot = kept(engine, prompt, 32, row=1)
    engine.write_state(snapshot, 32, tmp_path / "a.safetensors")
    again = engine.read_state(tmp_path / "a.safetensors", 32)
    assert drawn(engine, prompt, again, 32) == drawn(engine, prompt, snapshot, 32)
    assert engine.state_key != plain.state_key


def test_what_is_no_state(tmp_path: Path) -> None:
    for name, content in (("a", b""), ("b", b"nonsense" * 10)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="not the state"):
            read_caches(tmp_path / name)
