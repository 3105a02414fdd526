"""Image encoders: the mmproj file that belongs to a GGUF model. Knows no engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dragoman.catalog.gguf import GgufHeader, read_gguf
from dragoman.catalog.local import LocalModel, is_projector
from dragoman.core.errors import EngineFailure


def find_projector(model: LocalModel) -> Path | None:
    """The `mmproj*.gguf` beside `model` that makes vectors of its width; of several the one with the most of the
    model's name, then the first by name. None without one."""
    if model.format != "gguf" or model.header is None:
        return None
    width = model.header.number("embedding_length")
    beside = (path for path in sorted(model.path.parent.glob("*.gguf")) if is_projector(path))
    return max((path for path in beside if _fits(path, width)), key=lambda path: _likeness(path, model), default=None)


def _fits(path: Path, width: int) -> bool:
    try:
        header = read_gguf(path)
    except EngineFailure:
        return False
    made = [value for value in _widths(header) if value]
    return not made or width in made


def _widths(header: GgufHeader) -> Iterable[int]:
    for key in ("clip.vision.projection_dim", "clip.audio.projection_dim", "clip.projection_dim"):
        value = header.metadata.get(key)
        if isinstance(value, int):
            yield value


def _likeness(path: Path, model: LocalModel) -> int:
    """Letters that the file's name, without 'mmproj-', shares with the model's from the start."""
    name = path.stem.lower().removeprefix("mmproj").strip("-_.")
    pairs = zip(name, model.path.stem.lower(), strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(name), len(model.path.stem)))
