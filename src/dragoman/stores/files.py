"""Stored files: a row each, and a blob with the bytes. Knows no wire."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import Literal

from dragoman.core.errors import PayloadTooLarge
from dragoman.core.files import FilePage, FileRecord
from dragoman.core.ids import new_id
from dragoman.stores.blobs import BlobFolder, BlobReader
from dragoman.stores.database import Database

_COLUMNS = "id, tenant, name, content_type, purpose, bytes AS size, created, expires"
# The row of a file that is gone stays for a day: a client that deletes page by page goes on from it.
_CURSOR_SECONDS = 86400
_ALIVE = "(expires IS NULL OR expires > ?)"


class FileStore:
    """`cap` bytes of all files together. A file is seen when its row is there, which is written after its blob."""

    def __init__(
        self, database: Database, blobs: BlobFolder, *, cap: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._cap = cap
        self._clock = clock

    async def add(
        self, source: Path, *, name: str, content_type: str, purpose: str, lifetime: int | None, tenant: str = ""
    ) -> FileRecord:
        """Keep the file at `source`, which is moved away from there; durable on return. `lifetime` seconds, None: for
        ever. Raises PayloadTooLarge when it does not fit under the cap, StorageFull, StorageFailure."""
        size = (await asyncio.to_thread(source.stat)).st_size
        await self.check_room(size)
        record = self._record(name, content_type, purpose, size, lifetime, tenant)
        await self._blobs.take(source, record.id)
        return await self._enter(record, capped=True)

    async def write(
        self, pieces: AsyncIterable[bytes], *, name: str, purpose: str, lifetime: int | None, tenant: str = ""
    ) -> FileRecord:
        """Write a file of the server's own; it may exceed the cap, for it is what a client waits for. Its row is not
        written yet: `insert` does that, in the caller's transaction."""
        record = self._record(name, "application/jsonl", purpose, 0, lifetime, tenant)
        size = await self._blobs.write(record.id, pieces)
        return self._record(name, "application/jsonl", purpose, size, lifetime, tenant, record.id)

    async def check_room(self, size: int) -> None:
        """Raises PayloadTooLarge when `size` more bytes do not fit under the cap."""
        used = await self._database.read(self._used)
        self._check(used, size)

    async def get(self, id: str, tenant: str = "") -> FileRecord | None:
        """The file's record, None when there is none or it has expired."""
        query = f"SELECT {_COLUMNS} FROM files WHERE id = ? AND tenant = ? AND {_ALIVE}"  # noqa: S608
        row = await self._database.read(lambda side: side.execute(query, (id, tenant, self._now())).fetchone())
        return FileRecord(**dict(row)) if row is not None else None

    async def open(self, id: str, tenant: str = "") -> tuple[FileRecord, BlobReader] | None:
        """The record and a reader of the bytes, None when there is no such file. Raises StorageFailure."""
        record = await self.get(id, tenant)
        reader = await self._blobs.open(id) if record is not None else None
        return (record, reader) if record is not None and reader is not None else None

    def path(self, record: FileRecord) -> Path:
        """Where the bytes are, for readers that want a plain file. It may be deleted at any time."""
        return self._blobs.path(record.id)

    async def page(
        self,
        *,
        limit: int,
        after: str | None = None,
        order: Literal["asc", "desc"] = "desc",
        purpose: str | None = None,
        tenant: str = "",
    ) -> FilePage | None:
        """Files by age behind the one with the id `after`, which may have expired; None when there never was one."""
        return await self._database.read(lambda side: self._page(side, limit, after, order == "desc", purpose, tenant))

    async def delete(self, id: str, tenant: str = "") -> bool:
        """Delete the file; whether there was one. Whoever reads it now reads on."""
        query = f"UPDATE files SET expires = ? WHERE id = ? AND tenant = ? AND {_ALIVE}"  # noqa: S608
        values = (self._now(), id, tenant, self._now())
        gone = await self._database.write(lambda side: side.execute(query, values).rowcount > 0)
        if gone:
            await self._blobs.delete((id,))
        return gone

    async def sweep(self) -> None:
        """Delete the blobs of files that have expired, blobs without a row, and rows that nobody pages by any more."""
        now = self._now()

        def sweep(side: sqlite3.Connection) -> tuple[list[str], set[str]]:
            side.execute("DELETE FROM files WHERE expires <= ?", (now - _CURSOR_SECONDS,))
            expired = side.execute("SELECT id FROM files WHERE expires <= ?", (now,)).fetchall()
            return [row["id"] for row in expired], {row["id"] for row in side.execute("SELECT id FROM files")}

        expired, known = await self._database.write(sweep)
        await self._blobs.delete(expired)
        await self._blobs.sweep(known)

    def insert(self, side: sqlite3.Connection, record: FileRecord) -> None:
        """Write the row of a file whose blob is there, within a transaction."""
        side.execute(
            "INSERT INTO files (id, tenant, name, content_type, purpose, bytes, created, expires) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.id,
                record.tenant,
                record.name,
                record.content_type,
                record.purpose,
                record.size,
                record.created,
                record.expires,
            ),
        )

    async def _enter(self, record: FileRecord, *, capped: bool) -> FileRecord:
        def enter(side: sqlite3.Connection) -> None:
            if capped:
                self._check(self._used(side), record.size)
            self.insert(side, record)

        try:
            await self._database.write(enter)
        except Exception:
            await self._blobs.delete((record.id,))
            raise
        return record

    def _page(
        self,
        side: sqlite3.Connection,
        limit: int,
        after: str | None,
        newest: bool,
        purpose: str | None,
        tenant: str,
    ) -> FilePage | None:
        where, values = ["tenant = ?", _ALIVE], [tenant, self._now()]
        if purpose is not None:
            where.append("purpose = ?")
            values.append(purpose)
        if after is not None:
            cursor = side.execute("SELECT seq FROM files WHERE id = ? AND tenant = ?", (after, tenant)).fetchone()
            if cursor is None:
                return None
            where.append("seq < ?" if newest else "seq > ?")
            values.append(cursor["seq"])
        direction = "DESC" if newest else "ASC"
        query = f"SELECT {_COLUMNS} FROM files WHERE {' AND '.join(where)} ORDER BY seq {direction} LIMIT ?"  # noqa: S608
        rows = side.execute(query, (*values, limit + 1)).fetchall()
        return FilePage(tuple(FileRecord(**dict(row)) for row in rows[:limit]), len(rows) > limit)

    def _record(
        self, name: str, content_type: str, purpose: str, size: int, lifetime: int | None, tenant: str, id: str = ""
    ) -> FileRecord:
        now = self._now()
        return FileRecord(
            id=id or new_id("file-"),
            tenant=tenant,
            name=name,
            content_type=content_type,
            purpose=purpose,
            size=size,
            created=now,
            expires=None if lifetime is None else now + lifetime,
        )

    def _used(self, side: sqlite3.Connection) -> int:
        query = f"SELECT coalesce(sum(bytes), 0) FROM files WHERE {_ALIVE}"  # noqa: S608
        return int(side.execute(query, (self._now(),)).fetchone()[0])

    def _check(self, used: int, size: int) -> None:
        if used + size > self._cap:
            raise PayloadTooLarge(
                f"The files on this server may have {self._cap} bytes together; {max(0, self._cap - used)} are free.",
                field="file",
                remedy="Delete files, or start the server with a larger --files-bytes.",
            )

    def _now(self) -> int:
        return int(self._clock())
