"""Bytes on disk by name: put there whole or not at all. Knows no record."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ParamSpec, TypeVar

from dragoman.stores.database import storage_error

P = ParamSpec("P")
R = TypeVar("R")

_CHUNK = 256 * 1024
_STRAY_SECONDS = 3600.0


class BlobReader(AsyncGenerator[bytes, None]):
    """The bytes of an open blob in pieces; it stays readable though the blob be deleted meanwhile. Closed at its end,
    and by `aclose`, also when nothing was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def pieces(self) -> AsyncGenerator[bytes]:
        """Itself."""
        return self

    async def asend(self, value: None) -> bytes:
        """The next piece."""
        piece = b"" if self._file.closed else await asyncio.to_thread(self._file.read, _CHUNK)
        if not piece:
            self._file.close()
            raise StopAsyncIteration
        return piece

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> bytes:
        """Close, then raise."""
        self._file.close()
        raise val if isinstance(val, BaseException) else typ


class BlobFolder:
    """Blobs in `root`/blobs; in `incoming` they are written before they are whole. Both must be on one file system for
    a blob to move without being copied."""

    def __init__(self, root: Path, incoming: Path) -> None:
        self.incoming = incoming
        self._blobs = root / "blobs"

    def prepare(self) -> None:
        """Make the folders. Raises OSError."""
        for folder in (self._blobs, self.incoming):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def take(self, source: Path, name: str) -> None:
        """Move the file at `source` here under `name`; on disk when this returns. Raises StorageFull, StorageFailure;
        then there is no blob."""
        await asyncio.to_thread(_guarded, self._take, source, name)

    async def write(self, name: str, pieces: AsyncIterable[bytes]) -> int:
        """Write a blob of these pieces; its size in bytes. Raises as `take` does, and what `pieces` raises."""
        inside, size = self.incoming / name, 0
        file = await asyncio.to_thread(_guarded, inside.open, "wb")
        try:
            async for piece in pieces:
                size += await asyncio.to_thread(_guarded, file.write, piece)
            await asyncio.to_thread(_guarded, self._finish, file, name)
        finally:
            file.close()
            inside.unlink(missing_ok=True)
        return size

    async def open(self, name: str) -> BlobReader | None:
        """A reader, None when there is no such blob. Raises StorageFailure."""
        try:
            return BlobReader(await asyncio.to_thread((self._blobs / name).open, "rb"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "read") from error

    def path(self, name: str) -> Path:
        """Where the blob of that name is, or would be."""
        return self._blobs / name

    async def delete(self, names: Iterable[str]) -> None:
        """Delete blobs; those that are not there are passed over. Raises StorageFailure."""
        await asyncio.to_thread(_guarded, self._delete, tuple(names))

    async def sweep(self, known: set[str]) -> int:
        """Delete blobs that no record knows: what a crash left between a blob and its record. How many."""
        return await asyncio.to_thread(_guarded, self._sweep, known)

    def _take(self, source: Path, name: str) -> None:
        inside = self.incoming / name
        try:
            try:
                os.replace(source, inside)
            except OSError:
                shutil.copyfile(source, inside)  # another file system
            with inside.open("rb+") as file:
                os.fsync(file.fileno())
            self._publish(inside, name)
        finally:
            inside.unlink(missing_ok=True)

    def _finish(self, file: BinaryIO, name: str) -> None:
        file.flush()
        os.fsync(file.fileno())
        self._publish(self.incoming / name, name)

    def _publish(self, inside: Path, name: str) -> None:
        inside.chmod(0o600)
        os.replace(inside, self._blobs / name)
        _sync_folder(self._blobs)

    def _delete(self, names: tuple[str, ...]) -> None:
        for name in names:
            (self._blobs / name).unlink(missing_ok=True)

    def _sweep(self, known: set[str]) -> int:
        # Another server that shares the folder may be between its blob and its record just now.
        before = time.time() - _STRAY_SECONDS
        stray = [path for path in self._blobs.iterdir() if path.name not in known and path.stat().st_mtime < before]
        for path in stray:
            path.unlink(missing_ok=True)
        return len(stray)


def _guarded(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return work(*args, **kwargs)
    except OSError as error:
        raise storage_error(error, "written") from error


def _sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where folders can be synced."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
