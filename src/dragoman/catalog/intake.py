"""Blobs that clients upload, and models made of them: files of the store, found again by digest. Knows no name book."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.catalog.local import LocalModel, inspect_model
from dragoman.catalog.store import Store, sha256_of
from dragoman.core.disk import disk_error
from dragoman.core.errors import DragomanError, InvalidField, NotFound

_DIGEST = re.compile(r"^sha256[:-](?P<hex>[0-9a-f]{64})$")
_BLOB_SECONDS = 24 * 3600
_WEIGHTS = (".gguf", ".safetensors")


class Intake:
    """Blobs in a folder beside the store, under their SHA-256, for a day at most. All methods block. They raise
    StorageFailure beside what they say."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._blobs = store.root.parent / "blobs"

    def path(self, digest: str) -> Path:
        """Where the blob is, or would be. Raises InvalidField."""
        found = _DIGEST.match(digest)
        if found is None:
            raise InvalidField("invalid digest format", field="digest")
        return self._blobs / f"sha256-{found['hex']}"

    def require(self, digest: str) -> Path:
        """The blob. Raises NotFound."""
        path = self.path(digest)
        if not path.is_file():
            raise NotFound(f"blob {digest!r} not found")
        return path

    def keep(self, digest: str, upload: Path) -> None:
        """Move an upload to its place. Raises InvalidField when it is not what its digest says."""
        target = self.path(digest)
        try:
            if sha256_of(upload) != target.name.removeprefix("sha256-"):
                raise InvalidField(
                    f"digest mismatch, expected {digest!r}, got 'sha256:{sha256_of(upload)}'", field="digest"
                )
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._forget_old()
            # Uploads may arrive on another file system; what is under its digest is always whole.
            scratch = target.with_suffix(".part")
            shutil.move(upload, scratch)
            os.replace(scratch, target)
        except OSError as error:
            raise disk_error(error) from error

    def _forget_old(self) -> None:
        """Delete blobs that nobody made a model of for a day."""
        for blob in self._blobs.iterdir():
            try:
                if self._clock() - blob.stat().st_mtime > _BLOB_SECONDS:
                    blob.unlink()
            except OSError:
                continue

    def build(self, name: str, files: Sequence[tuple[str, str]]) -> LocalModel:
        """A model of the store made of (file name, digest); the blobs become its files. Raises NotFound for a blob that
        is not here, InvalidField when the files are no model that could be served."""
        blobs = [(_plain(file), self.require(digest)) for file, digest in files]
        if not any(file.endswith(_WEIGHTS) for file, _ in blobs):
            # A client may give any name to the one file of a GGUF model.
            blobs = [(f"{file}.gguf", blob) for file, blob in blobs]
        try:
            with self._store.arriving(name) as scratch:
                for file, blob in blobs:
                    _link(blob, scratch / file)
                try:
                    inspect_model(scratch, id=name)
                except DragomanError as error:
                    raise InvalidField(f"The files are no model: {error.message}", field="files") from error
            for _, blob in blobs:
                blob.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error) from error
        return inspect_model(self._store.folder(name), id=self._store.folder(name).name)

    def remove(self, model: LocalModel) -> bool:
        """Delete a model's files where this store holds them; whether it does."""
        folder = model.path if model.path.is_dir() else model.path.parent
        if folder.parent != self._store.root:
            return False
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise disk_error(error, "changed") from error
        return True


def _plain(file: str) -> str:
    """A file name without folders. Raises InvalidField."""
    plain = file.replace("\\", "/").rsplit("/", 1)[-1].strip()
    if not plain or plain.startswith(".") or not plain.isprintable():
        raise InvalidField(f"'{file}' is no file name.", field="files")
    return plain


def _link(blob: Path, target: Path) -> None:
    try:
        os.link(blob, target)
    except OSError:
        shutil.copyfile(blob, target)
