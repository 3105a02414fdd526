"""All stores of one server over one state folder. Knows no wire and nobody who uses them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from dragoman.core.errors import StorageFailure
from dragoman.stores.batches import BatchStore
from dragoman.stores.blobs import BlobFolder
from dragoman.stores.database import Database, open_database
from dragoman.stores.files import FileStore
from dragoman.stores.instance import Instance
from dragoman.stores.responses import ResponseStore

DATABASE_NAME = "dragoman.sqlite"


class StoreLimits(Struct, frozen=True, kw_only=True):
    """Caps in bytes: of all responses, of one file, of all files."""

    responses_bytes: int = 1024**3
    file_bytes: int = 512 * 1024**2
    files_bytes: int = 10 * 1024**3


class Stores:
    """Made by `open_stores`, closed by `close`. `incoming` is where an upload is best written before it is added."""

    def __init__(
        self, root: Path, database: Database, instance: Instance, limits: StoreLimits, clock: Callable[[], float]
    ) -> None:
        self.limits = limits
        self.instance = instance
        self.database = database
        self.clock = clock
        self.blobs = BlobFolder(root, instance.incoming)
        self.responses = ResponseStore(database, cap=limits.responses_bytes, clock=clock)
        self.files = FileStore(database, self.blobs, cap=limits.files_bytes, clock=clock)
        self.batches = BatchStore(database, self.files, clock=clock)
        self._temporary: Path | None = None

    @property
    def incoming(self) -> Path:
        """A folder on the blobs' file system that is emptied when this server ends, however it ends."""
        return self.blobs.incoming

    async def sweep(self) -> None:
        """Drop what has expired. Raises StorageFailure."""
        await self.responses.sweep()
        await self.files.sweep()
        await self.batches.sweep()
        await self.database.write(lambda side: side.execute("PRAGMA incremental_vacuum(1000)").fetchall())

    async def close(self) -> None:
        """Finish what is being written and close. Twice does nothing."""
        await self.database.close()
        await asyncio.to_thread(self._leave)

    def discard(self, folder: Path) -> None:
        """Delete `folder` on closing."""
        self._temporary = folder

    def _leave(self) -> None:
        self.instance.release()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


async def open_stores(folder: Path | None, limits: StoreLimits, *, clock: Callable[[], float] = time.time) -> Stores:
    """The stores in `folder`, which several servers may share; None: in memory and a temporary folder, gone on closing.

    Raises StorageFailure with the way out when the folder cannot be written.
    """
    root = folder or Path(tempfile.mkdtemp(prefix="dragoman-"))
    instance = Instance(root)
    try:
        await asyncio.to_thread(_prepare, root, instance)
        database = await open_database(None if folder is None else root / DATABASE_NAME)
    except OSError as error:
        instance.release()
        raise StorageFailure(
            f"The folder '{root}' cannot be written: {error.strerror or error}.",
            remedy="Name another one with --state-dir, or keep nothing with --ephemeral.",
        ) from error
    except BaseException:
        instance.release()
        raise
    stores = Stores(root, database, instance, limits, clock)
    if folder is None:
        stores.discard(root)
    return stores


def _prepare(root: Path, instance: Instance) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    instance.take()
    BlobFolder(root, instance.incoming).prepare()
