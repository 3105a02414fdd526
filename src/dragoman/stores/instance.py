"""Which server process something belongs to, and whether that process still lives. Knows no table."""

from __future__ import annotations

import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from dragoman.core.ids import new_id


class Instance:
    """This process among those that share a state folder. Its lock is free again however the process ends.

    `incoming` is a folder of its own, where unfinished files are.
    """

    def __init__(self, root: Path) -> None:
        self.id = new_id("s", 16)
        self._root = root / "servers"
        self.incoming = self._root / self.id
        self._lock = self._lock_of(self.id)

    def take(self) -> None:
        """Take the lock and clear away what dead servers left half-written. Raises OSError."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.acquire(timeout=0)
        self.incoming.mkdir(mode=0o700, exist_ok=True)
        for path in self._root.glob("*.lock"):
            self.alive(path.stem)

    def alive(self, id: str) -> bool:
        """Whether the server of that id runs; a dead one's unfinished files are removed."""
        if id == self.id:
            return True
        path = self._root / f"{id}.lock"
        if not id or not path.is_file():
            return False
        lock = self._lock_of(id)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):
            return True
        shutil.rmtree(self._root / id, ignore_errors=True)
        path.unlink(missing_ok=True)
        lock.release()
        return False

    def release(self) -> None:
        """Leave: unfinished files and the lock go. Twice does nothing."""
        shutil.rmtree(self.incoming, ignore_errors=True)
        if self._lock.is_locked:
            (self._root / f"{self.id}.lock").unlink(missing_ok=True)
            self._lock.release()

    def _lock_of(self, id: str) -> FileLock:
        return FileLock(self._root / f"{id}.lock", thread_local=False)
