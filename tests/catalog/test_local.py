"""Inspecting what lies on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.catalog.entries import ENTRIES
from dragoman.catalog.local import inspect_model
from dragoman.core.errors import EngineFailure
from tests.catalog.models import write_checkpoint_folder, write_gguf


def test_gguf_file_and_its_folder(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    by_file, by_folder = inspect_model(tmp_path / "m.gguf"), inspect_model(tmp_path)
    assert by_file == by_folder
    assert (by_file.id, by_file.format, by_file.trained_context) == ("m", "gguf", 256)
    assert by_file.aliases == ("m.gguf",)


def test_checkpoint_folder(tmp_path: Path) -> None:
    folder = write_checkpoint_folder(tmp_path / "tiny", quantization={"bits": 4, "group_size": 64})
    model = inspect_model(folder)
    assert (model.id, model.format, model.quantization) == ("tiny", "safetensors", "4bit")
    assert (model.chats, model.trained_context, model.size_bytes) == (False, 512, 64)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "T"}))
    assert inspect_model(folder).chats


def test_nested_text_config_and_template_file(tmp_path: Path) -> None:
    folder = write_checkpoint_folder(tmp_path / "vlm", text_config={"max_position_embeddings": 99})
    (folder / "chat_template.jinja").write_text("J")
    assert (inspect_model(folder).trained_context, inspect_model(folder).chats) == (99, True)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no model"),
        ({"config.json": "{}"}, "no .safetensors"),
        ({"config.json": "{", "m.safetensors": ""}, "not readable JSON"),
        ({"a.gguf": "", "b.gguf": ""}, "holds 2 GGUF files"),
        ({"a.gguf": "nonsense"}, "not a readable GGUF"),
    ],
)
def test_what_is_no_model(tmp_path: Path, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(EngineFailure, match=said):
        inspect_model(tmp_path)


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="no file or folder"):
        inspect_model(tmp_path / "none")


def test_known_names_are_distinct() -> None:
    names = [name for entry in ENTRIES for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))
