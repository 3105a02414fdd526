"""`dragoman pull` and `dragoman ls`. Knows `catalog` only."""

from __future__ import annotations

from pathlib import Path

from dragoman.app.server import say
from dragoman.catalog.fetch import fetch
from dragoman.catalog.find import local_models
from dragoman.catalog.local import LocalModel
from dragoman.catalog.store import Store

_HEAD = ("NAME", "ENGINE FORMAT", "FAMILY", "WEIGHTS", "SIZE", "WINDOW")


def pull_model(name: str, state_dir: Path | None) -> int:
    """Fetch a model and say where it is."""
    model = fetch(name, Store(state_dir), say)
    print(f"{model.id}\t{model.path}")
    return 0


def print_models(state_dir: Path | None) -> int:
    """A table of the models on this machine."""
    models = local_models(Store(state_dir))
    if not models:
        say("No models here yet. Fetch one with: dragoman pull smollm2-135m")
        return 0
    rows = [_HEAD, *(_row(model) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(model: LocalModel) -> tuple[str, ...]:
    window = str(model.trained_context or "?")
    return (model.id, model.format, model.architecture or "?", model.quantization or "?", _size(model), window)


def _size(model: LocalModel) -> str:
    if model.size_bytes < 10**9:
        return f"{model.size_bytes / 1e6:.0f} MB"
    return f"{model.size_bytes / 1e9:.1f} GB"
