"""Image encoders beside models."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from dragoman.catalog.local import inspect_model
from dragoman.catalog.projector import find_projector
from dragoman.core.errors import EngineFailure


def model(path: Path, width: int = 64) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(width)
    return written(writer, path)


def encoder(path: Path, width: int = 64) -> Path:
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_uint32("clip.vision.projection_dim", width)
    return written(writer, path)


def written(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_the_one_beside_the_model(tmp_path: Path) -> None:
    found = inspect_model(model(tmp_path / "gemma-3-4b.Q4_0.gguf"))
    assert find_projector(found) is None
    made = encoder(tmp_path / "mmproj-F16.gguf")
    assert find_projector(found) == made
    assert inspect_model(tmp_path).path == found.path, "a folder with a model and its encoder holds one model"


def test_only_one_that_fits(tmp_path: Path) -> None:
    found = inspect_model(model(tmp_path / "small.gguf"))
    encoder(tmp_path / "mmproj-large.gguf", 4096)
    (tmp_path / "mmproj-broken.gguf").write_bytes(b"GGUF")
    assert find_projector(found) is None


def test_of_several_the_namesake(tmp_path: Path) -> None:
    found = inspect_model(model(tmp_path / "gemma-3-4b.Q4_0.gguf"))
    encoder(tmp_path / "mmproj-a.gguf")
    made = encoder(tmp_path / "mmproj-gemma-3-4b-f16.gguf")
    encoder(tmp_path / "mmproj-qwen.gguf")
    assert find_projector(found) == made


def test_two_models_are_still_two(tmp_path: Path) -> None:
    model(tmp_path / "a.gguf")
    model(tmp_path / "b.gguf")
    encoder(tmp_path / "mmproj-a.gguf")
    with pytest.raises(EngineFailure, match="holds 2 GGUF files"):
        inspect_model(tmp_path)
