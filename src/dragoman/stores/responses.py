"""Stored responses: bodies, input items and contexts by id, until they expire or room is needed. Knows no wire."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from msgspec import Struct, structs

from dragoman.stores.database import Database

_COLUMNS = "id, tenant, created, expires, status, previous, body, items, context"


class StoredResponse(Struct, frozen=True, kw_only=True):
    """One response as it is kept. `created` and `expires` are Unix seconds; `previous` the id of the response it
    continues; `body`, `items` (what was put in) and `context` (what a continuation starts from) are bytes whose form is
    the writer's own business."""

    id: str
    tenant: str = ""
    created: int
    expires: int
    status: str
    previous: str | None = None
    body: bytes
    items: bytes = b"[]"
    context: bytes = b""

    @property
    def size(self) -> int:
        """Bytes it is counted with."""
        return len(self.body) + len(self.items) + len(self.context)


class ResponseStore:
    """`cap` bytes in all: the oldest go first. A response larger than that is not kept."""

    def __init__(self, database: Database, *, cap: int, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._cap = cap
        self._clock = clock

    async def put(self, record: StoredResponse) -> bool:
        """Keep it, in place of an older one of its id; durable on return. Tells whether it was kept: what is larger
        than the cap is not. Raises StorageFull, StorageFailure."""
        if record.size > self._cap:
            return False
        await self._database.write(lambda side: self._put(side, record))
        return True

    async def get(self, id: str, tenant: str = "") -> StoredResponse | None:
        """The response, or None when there is none of that id, or it has expired."""
        query = f"SELECT {_COLUMNS} FROM responses WHERE id = ? AND tenant = ? AND expires > ?"  # noqa: S608
        values = (id, tenant, int(self._clock()))
        row = await self._database.read(lambda side: side.execute(query, values).fetchone())
        return StoredResponse(**dict(row)) if row is not None else None

    async def delete(self, id: str, tenant: str = "") -> bool:
        """Forget it; whether there was one."""
        query = "DELETE FROM responses WHERE id = ? AND tenant = ? AND expires > ?"
        values = (id, tenant, int(self._clock()))
        return await self._database.write(lambda side: side.execute(query, values).rowcount > 0)

    async def with_status(self, *statuses: str) -> tuple[StoredResponse, ...]:
        """Responses in one of these states, oldest first: what a restart finds unfinished."""
        marks = ", ".join("?" * len(statuses))
        query = f"SELECT {_COLUMNS} FROM responses WHERE status IN ({marks}) AND expires > ? ORDER BY seq"  # noqa: S608
        values = (*statuses, int(self._clock()))
        rows = await self._database.read(lambda side: side.execute(query, values).fetchall())
        return tuple(StoredResponse(**dict(row)) for row in rows)

    async def sweep(self) -> int:
        """Drop what has expired; how many."""
        now = int(self._clock())
        return await self._database.write(
            lambda side: side.execute("DELETE FROM responses WHERE expires <= ?", (now,)).rowcount
        )

    def _put(self, side: sqlite3.Connection, record: StoredResponse) -> None:
        fields = structs.asdict(record)
        updates = ", ".join(f"{name} = excluded.{name}" for name in (*fields, "size") if name != "id")
        side.execute(
            f"INSERT INTO responses ({_COLUMNS}, size) VALUES ({', '.join('?' * 10)}) "  # noqa: S608
            f"ON CONFLICT (id) DO UPDATE SET {updates}",
            (*(fields[name] for name in _COLUMNS.split(", ")), record.size),
        )
        side.execute("DELETE FROM responses WHERE expires <= ?", (int(self._clock()),))
        self._evict(side, record.id)

    def _evict(self, side: sqlite3.Connection, spared: str) -> None:
        over = int(side.execute("SELECT coalesce(sum(size), 0) FROM responses").fetchone()[0]) - self._cap
        if over <= 0:
            return
        for row in side.execute("SELECT seq, size FROM responses WHERE id != ? ORDER BY seq", (spared,)).fetchall():
            side.execute("DELETE FROM responses WHERE seq = ?", (row["seq"],))
            over -= row["size"]
            if over <= 0:
                return
