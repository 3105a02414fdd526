"""Settings that only llama.cpp has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.app.gguf import require_for_mlx, tuned
from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.catalog.local import LocalModel
from dragoman.config import EngineSettings, Settings
from dragoman.core.errors import EngineFailure


def settings(tmp_path: Path, **engine: object) -> Settings:
    return Settings(state_dir=tmp_path, engine=replace(EngineSettings(), **engine))


def made(tmp_path: Path, **engine: object) -> LlamaCppOptions:
    model = LocalModel(id="m", path=tmp_path / "m.gguf", format="gguf")
    return tuned(LlamaCppOptions(model="m.gguf"), model, settings(tmp_path, **engine))


def test_settings_become_options(tmp_path: Path) -> None:
    for name in ("a.gguf", "d.gguf", "p.gguf"):
        (tmp_path / name).touch()
    a, draft, mmproj = (str(tmp_path / name) for name in ("a.gguf", "d.gguf", "p.gguf"))
    options = made(
        tmp_path, adapters=(f"x={a}:0.5",), draft_model=draft, mmproj=mmproj, kv_bits=4, gpu_layers=3, engine_stall=9.0
    )
    assert options.adapters == (Adapter("x", a, 0.5),)
    assert (options.draft_model, options.mmproj, options.kv_bits, options.gpu_layers) == (draft, mmproj, 4, 3)
    assert (options.stall, options.silence) == (9.0, 30.0)
    assert options.journal == tmp_path / "engines"
    assert made(tmp_path, mmproj="none").mmproj == made(tmp_path).mmproj == ""


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"adapters": ("x=/gone.gguf",)}, "for the adapter 'x'"),
        ({"draft_model": "/gone.gguf"}, "for the draft model"),
        ({"mmproj": "/gone.gguf"}, "for the image encoder"),
    ],
)
def test_files_that_are_not_there(tmp_path: Path, engine: dict[str, object], words: str) -> None:
    with pytest.raises(EngineFailure, match=words):
        made(tmp_path, **engine)


def test_mlx_passes_nothing_over() -> None:
    require_for_mlx(EngineSettings())
    with pytest.raises(EngineFailure, match="--adapter is for GGUF"):
        require_for_mlx(EngineSettings(adapters=("a",)))
    with pytest.raises(EngineFailure, match="--drafter"):
        require_for_mlx(EngineSettings(drafter="ngram-mod"))
    with pytest.raises(EngineFailure, match="--context-shift"):
        require_for_mlx(EngineSettings(context_shift=True))
