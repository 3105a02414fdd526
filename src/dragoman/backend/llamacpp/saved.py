"""States of slots as files: where llama.cpp may write them, and how long they stay. Knows no request and no wire."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

_PREFIX = "dragoman-slots-"
_LOCK = "owner"
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own, which only we may enter, is made in it
_STALE_SECONDS = 60.0
_LEAST_MEMORY = 256 << 20
"""Bytes; a RAM-backed file system with less room (containers often have 64 MiB) is not used."""
_SHARE = 0.8
"""Of the room there is, how much we take at most."""


class SavedState:
    """A core.snapshot.Snapshot in a file of the state folder. The file goes when the last one who holds this goes."""

    def __init__(self, path: Path, length: int, nbytes: int, *, trimmable: bool) -> None:
        self.path = path
        self.length = length
        self.nbytes = nbytes
        self.trimmable = trimmable
        self._release = weakref.finalize(self, _remove, path)

    @property
    def name(self) -> str:
        """What llama.cpp is told."""
        return self.path.name


class StateFolder:
    """A private folder, RAM-backed where that has room for `wanted` bytes or at least a useful part of them.

    Its path is known at once, so that the engine can be told; it exists between `open` and `close`. A lock held by
    the owner tells it from what a killed process left.
    """

    def __init__(self, wanted: int, parents: tuple[Path, ...] | None = None) -> None:
        self._wanted = wanted
        self._parent = _roomiest(parents or (_MEMORY, Path(tempfile.gettempdir())), min(wanted, _LEAST_MEMORY))
        self.path = self._parent / f"{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
        self._numbers = itertools.count(1)
        self._lock: IO[bytes] | None = None

    @property
    def room(self) -> int:
        """Bytes that may be kept here: those wanted, or less where the file system has less."""
        free = _free(self._parent)
        return self._wanted if free is None else min(self._wanted, int(free * _SHARE))

    def open(self) -> None:
        """Make it, and remove stale ones. Raises OSError."""
        sweep(self._parent)
        self.path.mkdir(mode=0o700, exist_ok=True)
        if self._lock is None:
            self._lock = open(self.path / _LOCK, "wb")  # noqa: SIM115 - held until `close`
            _try_lock(self._lock)

    def new_path(self) -> Path:
        """A path nobody has used. Plain ASCII: llama.cpp takes nothing else."""
        return self.path / f"s{next(self._numbers)}.bin"

    def close(self) -> None:
        """Remove it and all that is in it. Safe to call twice."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove state folders whose owner is gone."""
    for left in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS and _is_abandoned(left / _LOCK):
                shutil.rmtree(left, ignore_errors=True)


def _is_abandoned(lock: Path) -> bool:
    if not lock.exists():
        return True
    with open(lock, "r+b") as file:
        return _try_lock(file)


def _try_lock(file: IO[bytes]) -> bool:
    """Whether the lock is ours now; where there are no locks, never."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _roomiest(parents: tuple[Path, ...], least: int) -> Path:
    """The first that can be written to and has that much room, else the last."""
    for parent in parents[:-1]:
        free = _free(parent)
        if free is not None and free >= least and os.access(parent, os.W_OK | os.X_OK):
            return parent
    return parents[-1]


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
