"""Checkpoint folders load in the precision asked for, or fail with a sentence that says what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx import nn

from dragoman.core.errors import EngineFailure
from dragoman.engines.mlx.load import load_checkpoint
from dragoman.engines.mlx.precision import weights_of
from tests.support.checkpoints import CONFIGS, random_model, save_weights, write_checkpoint

pytestmark = pytest.mark.mlx

IDS = [5, 77, 300, 12]
PACKINGS: list[dict[str, Any]] = [
    {"group_size": 32, "bits": 4},
    {"group_size": 64, "bits": 8},
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
]


def logits(model: Any) -> np.ndarray:
    return np.array(model(mx.array([IDS]))[0].astype(mx.float32))


def quantised(folder: Path, family: str, **packing: Any) -> Any:
    """A checkpoint with packed weights in `folder`; the packed model."""
    write_checkpoint(folder, family, seed=3)
    model = random_model(CONFIGS[family], 3)
    nn.quantize(model, **packing)
    save_weights(folder, model)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization": packing}))
    return model


def refused(folder: Path) -> str:
    with pytest.raises(EngineFailure) as caught:
        load_checkpoint(folder)
    return caught.value.sentence


def test_a_bfloat16_checkpoint_is_widened_on_a_cpu(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "llama")
    model = random_model(CONFIGS["llama"], 0)
    model.set_dtype(mx.bfloat16)
    save_weights(folder, model)

    loaded = load_checkpoint(folder, "auto" if mx.default_device() == mx.Device(mx.cpu) else "float32")

    assert {value.dtype for _, value in weights_of(loaded.model)} == {mx.float32}
    assert loaded.facts.quantization == "BF16"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_take_the_type_asked_for(checkpoint: Callable[[str], Path], dtype: Any) -> None:
    model = load_checkpoint(checkpoint("qwen3_moe"), dtype).model

    assert {value.dtype for _, value in weights_of(model)} == {getattr(mx, dtype)}


@pytest.mark.parametrize("family", ["llama", "llama_tied", "qwen3_moe"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_packed_weights_are_unpacked_to_float32(tmp_path: Path, family: str, packing: dict[str, Any]) -> None:
    packed = quantised(tmp_path, family, **packing)

    loaded = load_checkpoint(tmp_path, "float32")

    assert {value.dtype for _, value in weights_of(loaded.model)} == {mx.float32}
    assert np.allclose(logits(loaded.model), logits(packed), rtol=0, atol=2e-3)
    assert loaded.facts.quantization == packing.get("mode", f"{packing['bits']}bit")


def test_packed_weights_stay_packed_when_asked(tmp_path: Path) -> None:
    quantised(tmp_path, "llama", group_size=32, bits=4)

    loaded = load_checkpoint(tmp_path, "quantized")

    assert dict(weights_of(loaded.model))["model.layers.0.mlp.up_proj.weight"].dtype == mx.uint32
    assert loaded.facts.parameters == load_checkpoint(tmp_path, "float32").facts.parameters


def test_facts_are_read_off_the_checkpoint(checkpoint: Callable[[str], Path]) -> None:
    facts = load_checkpoint(checkpoint("qwen3")).facts

    assert facts.architecture == "qwen3"
    assert facts.parameters == sum(value.size for _, value in weights_of(random_model(CONFIGS["qwen3"], 3)))
    assert (facts.vocab_size, facts.embedding_length, facts.trained_context) == (320, 64, 512)
    assert facts.quantization == "F32"


def _broken(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    assert "config.json" in refused(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"hidden_size": 64}', '{"model_type": 3}'])
def test_a_config_that_says_nothing_is_refused(checkpoint: Callable[[str], Path], tmp_path: Path, text: str) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "config.json").write_text(text)

    assert "config.json" in refused(folder)


def test_an_unknown_model_type_is_named(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama"] | {"model_type": "babelfish"}))

    sentence = refused(folder)
    assert "babelfish" in sentence
    assert "llama.cpp" in sentence


def test_a_missing_entry_is_named(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    config = {key: value for key, value in CONFIGS["llama"].items() if key != "hidden_size"}
    (folder / "config.json").write_text(json.dumps(config))

    assert "hidden_size" in refused(folder)


def test_code_in_the_folder_is_never_run(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama"] | {"model_file": "evil.py"}))
    (folder / "evil.py").write_text("raise SystemExit('ran')")

    assert "evil.py" in refused(folder)


def test_missing_weights_are_refused(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "model.safetensors").unlink()

    assert "model*.safetensors" in refused(folder)


def test_a_missing_shard_is_named(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert "model-00002-of-00002.safetensors" in refused(folder)


@pytest.mark.parametrize("part", [0.0, 0.00001, 0.001, 0.5, 0.999])
def test_weights_cut_short_are_refused(checkpoint: Callable[[str], Path], tmp_path: Path, part: float) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])

    assert "damaged or incomplete" in refused(folder)


def test_weights_of_another_shape_are_refused(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama"] | {"num_hidden_layers": 3}))

    assert "llama" in refused(folder)


def test_a_pointer_instead_of_weights_is_refused(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = _broken(checkpoint("llama"), tmp_path / "m")
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")

    assert "damaged or incomplete" in refused(folder)


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_open_files_stay_possible_after_mlx_lm_was_imported() -> None:
    """mlx-lm lowers the soft limit to 2048 files; a server needs one for each connection."""
    code = (
        "import resource; _, hard = resource.getrlimit(resource.RLIMIT_NOFILE);"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3000, hard));"
        "from dragoman.engines.mlx.load import import_mlx_lm; import_mlx_lm('utils');"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )

    printed = _run(code)

    assert printed.split()[0] == "3000"


def test_the_engine_says_how_to_install_mlx() -> None:
    code = (
        "import sys; sys.modules['mlx'] = sys.modules['mlx.core'] = None\n"
        "from dragoman.engines.mlx.engine import MlxEngine, MlxOptions\n"
        "from dragoman.core.errors import EngineFailure\n"
        "try: MlxEngine(MlxOptions(path='nowhere')).load()\n"
        "except EngineFailure as error: print(error.sentence)\n"
    )

    printed = _run(code)

    assert "pip install 'dragoman[mlx]'" in printed
