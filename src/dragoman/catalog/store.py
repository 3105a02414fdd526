"""The local store: models this program fetched, one folder each under `<state>/models`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_data_path

from dragoman.catalog.local import LocalModel, inspect_model
from dragoman.core.errors import DragomanError

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def default_state_dir() -> Path:
    """DRAGOMAN_STATE_DIR, else the platform's place for application data."""
    named = os.environ.get("DRAGOMAN_STATE_DIR")
    return Path(named) if named else user_data_path("dragoman")


class Store:
    """Folders of fetched models. Writing is atomic: a folder appears complete or not at all."""

    def __init__(self, state_dir: Path | None = None) -> None:
        self.root = (state_dir or default_state_dir()) / "models"

    def folder(self, name: str) -> Path:
        """Where the model `name` is, or would be."""
        return self.root / _UNSAFE.sub("--", name).strip(".-")

    @contextmanager
    def arriving(self, name: str) -> Generator[Path]:
        """A scratch folder that becomes the model's folder when the block ends well, and vanishes otherwise. Two
        processes fetching the same model wait for each other."""
        self.root.mkdir(parents=True, exist_ok=True)
        final = self.folder(name)
        with FileLock(self.root / f".{final.name}.lock"):
            scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=self.root))
            try:
                yield scratch
                if final.exists():
                    shutil.rmtree(final)
                scratch.replace(final)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def models(self) -> list[LocalModel]:
        """Every readable model in the store, by name; broken folders are passed over."""
        if not self.root.is_dir():
            return []
        found: list[LocalModel] = []
        for folder in sorted(self.root.iterdir()):
            if folder.name.startswith(".") or not folder.is_dir():
                continue
            try:
                found.append(inspect_model(folder, id=folder.name))
            except DragomanError:
                continue
        return found


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
