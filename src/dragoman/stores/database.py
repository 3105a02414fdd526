"""One SQLite file behind an asynchronous facade: writes on one thread, reads on another. Knows no table."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from dragoman.core.disk import disk_error
from dragoman.core.errors import StorageFailure, StorageFull
from dragoman.stores.migrations import migrate

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_BUSY_SECONDS = 30.0
_log = logging.getLogger(__name__)


class Database:
    """Made by `open_database`. Every unit of work is one transaction: all of it is on disk when `write` returns, or
    none.

    Several processes may have the same file open.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._reader = self._writer if path is None else ThreadPoolExecutor(1, thread_name_prefix="store-read")
        self._write_side: sqlite3.Connection | None = None
        self._read_side: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Connect and bring the tables up to date. Raises StorageFailure, then nothing is left open."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._writer, self._connect)
        except (sqlite3.Error, OSError) as error:
            await self.close()
            where = "in memory" if self._path is None else f"'{self._path}'"
            raise StorageFailure(
                f"The database {where} cannot be opened: {error}.",
                remedy="Name another folder with --state-dir, or keep nothing with --ephemeral.",
            ) from error
        except BaseException:
            await self.close()
            raise

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction of its own and make it durable. Raises StorageFull, StorageFailure, and what
        `work` raises; then nothing of it remains. A cancelled caller leaves it whole, done or not done."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._run_write, work)

    async def read(self, work: Work[T]) -> T:
        """Run `work`, which only looks, on a consistent state that has everything written before."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._run_read, work)

    async def close(self) -> None:
        """Finish what was begun and close; closing twice does nothing."""
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._reader.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        for side in {self._read_side, self._write_side}:
            if side is not None:
                side.close()
        self._read_side = self._write_side = None

    def _connect(self) -> None:
        if self._path is None:
            self._write_side = self._read_side = _connection(":memory:")
            migrate(self._write_side)
        else:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            with FileLock(f"{self._path}.opening"):  # two servers may make it at the same moment
                self._write_side = _connection(str(self._path))
                migrate(self._write_side)
            self._read_side = _connection(str(self._path))
            self._read_side.execute("PRAGMA query_only=ON")

    def _run_write(self, work: Work[T]) -> T:
        side = _open(self._write_side)
        try:
            side.execute("BEGIN IMMEDIATE")
            result = work(side)
            side.execute("COMMIT")
        except sqlite3.Error as error:
            _roll_back(side)
            raise storage_error(error, "written") from error
        except BaseException:
            _roll_back(side)
            raise
        return result

    def _run_read(self, work: Work[T]) -> T:
        side = _open(self._read_side)
        try:
            side.execute("BEGIN")
            try:
                return work(side)
            finally:
                side.execute("COMMIT")
        except sqlite3.Error as error:
            _roll_back(side)
            raise storage_error(error, "read") from error


async def open_database(path: Path | None) -> Database:
    """The database at `path`, made with its folder when it is not there; None: one in memory. Raises StorageFailure."""
    database = Database(path)
    await database.open()
    return database


def storage_error(error: sqlite3.Error | OSError, deed: str) -> StorageFailure:
    """What a client is told of it; `deed` says what could not be done: 'read' or 'written'. The log has the details."""
    _log.error("the store could not be %s: %s", deed, error)
    if isinstance(error, OSError):
        return disk_error(error, deed)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StorageFull("The disk of this server is full; nothing was stored.")
    return StorageFailure(f"The store of this server could not be {deed}; the server log has the details.")


def _connection(name: str) -> sqlite3.Connection:
    side = sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    side.row_factory = sqlite3.Row
    for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        side.execute(f"PRAGMA {pragma}")
    return side


def _open(side: sqlite3.Connection | None) -> sqlite3.Connection:
    if side is None:
        raise StorageFailure("The store of this server is closed.")
    return side


def _roll_back(side: sqlite3.Connection) -> None:
    if side.in_transaction:
        side.execute("ROLLBACK")
