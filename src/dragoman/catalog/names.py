"""The names clients gave to models, in one file of the state folder that several servers may share. Knows no model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from filelock import FileLock
from msgspec import Struct

from dragoman.core.disk import disk_error
from dragoman.core.names import NamedModel, plain_name

_VERSION = 1


class _File(Struct, frozen=True):
    """What the file holds."""

    version: int
    names: tuple[NamedModel, ...]


class NameBook:
    """Names by `plain_name`. Without a path they last as long as the book.

    `find` and `all` look at the file's time and read it when another server wrote it; they may be called on the event
    loop. `put` and `drop` write it, atomically and under a lock. Both raise StorageFailure.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._names: dict[str, NamedModel] = {}
        self._read: tuple[int, int] | None = None

    def find(self, name: str) -> NamedModel | None:
        """The model of that name."""
        self._refresh()
        return self._names.get(plain_name(name))

    def all(self) -> tuple[NamedModel, ...]:
        """All of them, by name."""
        self._refresh()
        return tuple(self._names[name] for name in sorted(self._names))

    def put(self, named: NamedModel) -> None:
        """Add a name, or give it another meaning."""

        def put(names: dict[str, NamedModel]) -> None:
            names[plain_name(named.name)] = named

        self._change(put)

    def drop(self, name: str) -> None:
        """Forget a name; nothing when there is none."""

        def drop(names: dict[str, NamedModel]) -> None:
            names.pop(plain_name(name), None)

        self._change(drop)

    def _change(self, change: Callable[[dict[str, NamedModel]], None]) -> None:
        if self._path is None:
            change(self._names)
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock"):
                self._refresh()
                names = dict(self._names)
                change(names)
                self._write(self._path, names)
                self._refresh()
        except OSError as error:
            raise disk_error(error) from error

    def _refresh(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._read or self._path is None:
            return
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File) if stamp else _File(_VERSION, ())
        except (OSError, msgspec.DecodeError):
            # What cannot be read is not overwritten before somebody gives a name anew.
            file = _File(_VERSION, ())
        self._names, self._read = {plain_name(named.name): named for named in file.names}, stamp

    def _write(self, path: Path, names: dict[str, NamedModel]) -> None:
        body = msgspec.json.format(msgspec.json.encode(_File(_VERSION, tuple(names.values()))), indent=1)
        scratch = path.with_name(f".{path.name}.new")
        with scratch.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """Identity and time of the file; None where there is none."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return (status.st_ino, status.st_mtime_ns) if status else None
