"""GGUF files become the same model as the checkpoint they were made from; what MLX cannot hold is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx

from dragoman.core.errors import EngineFailure
from dragoman.engines.mlx.gguf import load_gguf
from dragoman.engines.mlx.gguf_header import read_header
from dragoman.engines.mlx.precision import weights_of
from tests.engines.mlx.driving import alone, loaded, spec_of
from tests.support.checkpoints import CONFIGS, random_model
from tests.support.gguf_files import write_gguf

pytestmark = pytest.mark.mlx

IDS = [5, 77, 300, 12, 9, 200]


def logits(model: Any) -> np.ndarray:
    return np.array(model(mx.array([IDS]))[0].astype(mx.float32))


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("family", ["llama", "llama_tied", "qwen2", "qwen3"])
def test_weights_are_those_of_the_file_to_the_bit(tmp_path: Path, family: str, kind: str) -> None:
    path = tmp_path / "tiny.gguf"
    held = write_gguf(path, family=family, kind=kind, seed=5)

    model = load_gguf(path, "float32").model

    found = dict(weights_of(model))
    assert set(found) == set(held)
    assert all(value.dtype == mx.float32 for value in found.values())
    assert all(np.array_equal(np.array(found[name]), held[name]) for name in held)


@pytest.mark.parametrize("family", ["llama", "llama_tied", "qwen2", "qwen3"])
def test_a_gguf_computes_what_its_checkpoint_computes(tmp_path: Path, family: str) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, family=family, seed=5)

    model = load_gguf(path).model

    assert np.allclose(logits(model), logits(random_model(CONFIGS[family], 5)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_packed_weights_compute_what_unpacked_ones_do(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, kind=kind)

    packed, dense = load_gguf(path, "quantized").model, load_gguf(path, "float32").model

    assert dict(weights_of(packed))["model.layers.0.mlp.up_proj.weight"].dtype == mx.uint32
    assert np.allclose(logits(packed), logits(dense), rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_take_the_type_asked_for(tmp_path: Path, dtype: Any) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, kind="Q4_1")

    assert {value.dtype for _, value in weights_of(load_gguf(path, dtype).model)} == {getattr(mx, dtype)}


def test_facts_are_read_off_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    held = write_gguf(path, kind="Q8_0")

    facts = load_gguf(path).facts

    assert facts.architecture == "llama"
    assert facts.parameters == sum(value.size for value in held.values())
    assert (facts.vocab_size, facts.embedding_length, facts.trained_context) == (320, 64, 512)
    assert facts.quantization == "Q8_0"


def test_rope_factors_stretch_the_wavelengths(tmp_path: Path) -> None:
    """Factors as llama.cpp's converter computes them for a llama3 config, against mlx-lm on that config."""
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    wavelengths = 2 * np.pi * 10000.0 ** (np.arange(0, 16, 2) / 16)
    smooth = (64 / wavelengths - 1.0) / 3.0
    factors = np.where(wavelengths < 16, 1.0, np.where(wavelengths > 64, 8.0, 1 / ((1 - smooth) / 8 + smooth)))
    path = tmp_path / "tiny.gguf"
    write_gguf(path, seed=5, rope_factors=factors)

    model = load_gguf(path).model

    plain = random_model(CONFIGS["llama"], 5)
    assert np.allclose(
        logits(model), logits(random_model(CONFIGS["llama"] | {"rope_scaling": scaling}, 5)), rtol=0, atol=1e-4
    )
    assert not np.allclose(logits(model), logits(plain), rtol=0, atol=1e-2)


@pytest.mark.parametrize(
    ("metadata", "scaling"),
    [
        ({".rope.scaling.type": "linear", ".rope.scaling.factor": 4.0}, {"type": "linear", "factor": 4.0}),
        (
            {
                ".rope.scaling.type": "yarn",
                ".rope.scaling.factor": 4.0,
                ".rope.scaling.original_context_length": 128,
            },
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        ),
        ({".rope.scaling.type": "none"}, None),
    ],
)
def test_rope_scaling_is_that_of_the_same_config(
    tmp_path: Path, metadata: dict[str, Any], scaling: dict[str, Any] | None
) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, seed=5, metadata=metadata)

    model = load_gguf(path).model

    assert np.allclose(
        logits(model), logits(random_model(CONFIGS["llama"] | {"rope_scaling": scaling}, 5)), rtol=0, atol=1e-5
    )


def test_attention_biases_of_a_llama_are_reordered_with_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    held = write_gguf(path, seed=5, attention_bias=True)

    model = load_gguf(path).model

    reference = random_model(CONFIGS["llama"] | {"attention_bias": True}, 5)
    assert "model.layers.0.self_attn.q_proj.bias" in held
    assert np.allclose(logits(model), logits(reference), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "Q5_0"}, ["Q5_0", "llama.cpp"]),
        ({"kind": "BF16"}, ["BF16", "llama.cpp"]),
        ({"metadata": {".expert_count": 8}}, ["mixture of experts", "llama.cpp"]),
        ({"metadata": {".rope.dimension_count": 8}}, ["rotates only a part", "llama.cpp"]),
        ({"metadata": {".rope.scaling.type": "longrope"}}, ["longrope", "llama.cpp"]),
        ({"metadata": {"split.count": 3}}, ["split", "llama.cpp"]),
        ({"metadata": {"general.architecture": "mamba"}}, ["mamba", "llama, qwen2, qwen3", "llama.cpp"]),
    ],
)
def test_what_mlx_cannot_hold_is_refused_with_the_way_out(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    path = tmp_path / "tiny.gguf"
    if "general.architecture" in changes.get("metadata", {}):
        write_gguf(path)
        path.write_bytes(path.read_bytes().replace(b"llama", b"mamba"))
    else:
        write_gguf(path, **changes)

    with pytest.raises(EngineFailure) as caught:
        load_gguf(path)

    assert all(word in caught.value.sentence for word in words), caught.value.sentence


@pytest.mark.parametrize("part", [0.0001, 0.01, 0.5, 0.999])
def test_a_file_cut_short_is_an_error_not_a_crash(tmp_path: Path, part: float) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])

    with pytest.raises(EngineFailure, match=r"incomplete|not a GGUF"):
        load_gguf(path)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + b"x" * 100, b"GGUF\x01\x00\x00\x00" + b"\0" * 40])
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(content)

    with pytest.raises(EngineFailure):
        load_gguf(path)


def test_damaged_headers_never_crash(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    whole = bytearray(path.read_bytes())
    chance = np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(whole)
        for position in chance.integers(4, 600, 3):
            broken[position] = chance.integers(0, 256)
        path.write_bytes(broken)
        try:
            read_header(path)
        except EngineFailure:
            continue


def test_the_engine_serves_a_gguf(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, kind="Q4_1")
    engine = loaded(path)

    tokens = alone(engine, spec_of(IDS), 8)

    model: Any = load_gguf(path).model
    sequence = list(IDS)
    for _ in range(8):
        sequence.append(int(mx.argmax(model(mx.array([sequence]))[0, -1]).item()))
    assert tokens == sequence[len(IDS) :]


@pytest.mark.slow
@pytest.mark.parametrize("index", [0])
def test_the_starter_model_says_what_llama_cpp_says(starter_gguf: Path, index: int) -> None:
    """llama.cpp on the same weights in float32, token for token; on the packed file up to its 8-bit activations."""
    golden = json.loads((Path(__file__).parent / "data" / "smollm2_greedy.json").read_text())["rows"][index]
    prompt, exact, packed = golden["prompt"], golden["exact"][:20], golden["packed"][:20]

    model: Any = load_gguf(starter_gguf).model
    rows = np.array(model(mx.array([prompt + exact, prompt + packed])))[:, len(prompt) - 1 : -1]

    assert rows[0].argmax(axis=-1).tolist() == exact
    missed = rows[1].max(axis=-1) - rows[1][np.arange(20), packed]
    assert missed.max() < 0.5
