"""Batches and their rows. Knows no wire, and not how rows are run."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

import msgspec
from msgspec import structs

from dragoman.core.batches import (
    ENDED,
    BatchFault,
    BatchPage,
    BatchRecord,
    BatchRow,
    BatchStatus,
    NewRow,
    RowOutcome,
    RowUsage,
)
from dragoman.core.files import FileRecord
from dragoman.core.ids import new_id
from dragoman.stores.database import Database
from dragoman.stores.files import FileStore

_ROW = "batch, n, id, custom_id, method, path, body, outcome, status, request_id, result, code, message"
_PAGE_ROWS = 64
_KEPT_SECONDS = 30 * 86400
# The column that counts rows of an outcome.
_COUNTED: dict[RowOutcome, str] = {
    "succeeded": "completed",
    "failed": "failed",
    "invalid": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}
_PLAIN = (
    "id", "tenant", "surface", "status", "created", "expires", "endpoint", "model", "owner", "input_file",
    "output_file", "error_file", "output_expires", "total", "completed", "failed", "cancelled", "expired",
)  # fmt: skip


class BatchStore:
    """Every method is one transaction. A row's outcome is durable when `finish_row` returns, and is never changed."""

    def __init__(self, database: Database, files: FileStore, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._files = files
        self._clock = clock

    async def create(self, record: BatchRecord, rows: Sequence[NewRow] = ()) -> BatchRecord:
        """Keep a new batch, with rows when it has them already."""

        def create(side: sqlite3.Connection) -> BatchRecord:
            fields = _fields(record)
            names = ", ".join(fields)
            marks = ", ".join("?" * len(fields))
            side.execute(f"INSERT INTO batches ({names}) VALUES ({marks})", tuple(fields.values()))  # noqa: S608
            _add_rows(side, record.id, 0, rows)
            return _get(side, record.id) or record

        return await self._database.write(create)

    async def get(self, id: str) -> BatchRecord | None:
        """The batch of that id, whatever its surface and tenant."""
        return await self._database.read(lambda side: _get(side, id))

    async def unfinished(self) -> tuple[BatchRecord, ...]:
        """Batches that have not ended, oldest first, whoever works on them."""
        marks = ", ".join("?" * len(ENDED))
        query = f"SELECT * FROM batches WHERE status NOT IN ({marks}) ORDER BY seq"  # noqa: S608
        rows = await self._database.read(lambda side: side.execute(query, ENDED).fetchall())
        return tuple(_record(row) for row in rows)

    async def page(
        self, surface: str, *, limit: int, after: str | None = None, before: str | None = None, tenant: str = ""
    ) -> BatchPage | None:
        """Batches, newest first: those older than `after`, or the `limit` next newer than `before`; None when the
        cursor is no batch."""
        return await self._database.read(lambda side: _page(side, surface, tenant, limit, after, before))

    async def adopt(self, id: str, old: str, new: str) -> bool:
        """Make `new` the owner unless somebody did so before."""
        query = "UPDATE batches SET owner = ? WHERE id = ? AND owner = ?"
        return await self._database.write(lambda side: side.execute(query, (new, id, old)).rowcount > 0)

    async def advance(
        self,
        id: str,
        status: BatchStatus,
        *,
        unless: Sequence[BatchStatus] = ENDED,
        faults: tuple[BatchFault, ...] | None = None,
        files: tuple[FileRecord | None, FileRecord | None] = (None, None),
        drop_rows: bool = False,
    ) -> BatchRecord | None:
        """Move to `status` and note when, unless it is in one of those; with `files` for output and errors, whose rows
        are written in the same transaction. The batch as it is then."""

        def advance(side: sqlite3.Connection) -> BatchRecord | None:
            record = _get(side, id)
            if record is None or record.status in unless:
                return record
            for file in filter(None, files):
                self._files.insert(side, file)
            output, errors = (file.id if file is not None else None for file in files)
            times = {**record.times, status: record.times.get(status, self._now())}
            changed = structs.replace(
                record,
                status=status,
                times=times,
                faults=record.faults if faults is None else faults,
                output_file=output or record.output_file,
                error_file=errors or record.error_file,
            )
            _update(side, changed)
            if drop_rows:
                side.execute("DELETE FROM batch_rows WHERE batch = ?", (id,))
            return changed

        return await self._database.write(advance)

    async def add_rows(self, id: str, rows: Sequence[NewRow], first: int) -> None:
        """More rows of a batch, the first of them with number `first`."""
        await self._database.write(lambda side: _add_rows(side, id, first, rows))

    async def clear_rows(self, id: str) -> None:
        """Forget all rows: those of a validation that was broken off."""

        def clear(side: sqlite3.Connection) -> None:
            side.execute("DELETE FROM batch_rows WHERE batch = ?", (id,))
            side.execute("UPDATE batches SET total = 0, completed = 0, failed = 0 WHERE id = ?", (id,))

        await self._database.write(clear)

    async def pending(self, id: str, after: int, limit: int) -> tuple[BatchRow, ...]:
        """Rows without an outcome, numbered above `after`, in order."""
        query = f"SELECT {_ROW} FROM batch_rows WHERE batch = ? AND outcome = 'pending' AND n > ? ORDER BY n LIMIT ?"  # noqa: S608
        rows = await self._database.read(lambda side: side.execute(query, (id, after, limit)).fetchall())
        return tuple(BatchRow(**dict(row)) for row in rows)

    async def finish_row(self, row: BatchRow, usage: RowUsage = RowUsage()) -> None:  # noqa: B008
        """Write the outcome of a row, unless it has one."""

        def finish(side: sqlite3.Connection) -> None:
            done = side.execute(
                "UPDATE batch_rows SET outcome = ?, status = ?, request_id = ?, result = ?, code = ?, message = ? "
                "WHERE batch = ? AND n = ? AND outcome = 'pending'",
                (row.outcome, row.status, row.request_id, row.result, row.code, row.message, row.batch, row.n),
            )
            if done.rowcount:
                _count(side, row.batch, row.outcome, 1)
                _add_usage(side, row.batch, usage)

        await self._database.write(finish)

    async def finish_rest(self, id: str, outcome: RowOutcome, code: str, message: str) -> None:
        """Give every row without an outcome this one."""

        def finish(side: sqlite3.Connection) -> None:
            done = side.execute(
                "UPDATE batch_rows SET outcome = ?, code = ?, message = ? WHERE batch = ? AND outcome = 'pending'",
                (outcome, code, message, id),
            )
            _count(side, id, outcome, done.rowcount)

        await self._database.write(finish)

    async def rows(self, id: str, outcomes: Sequence[RowOutcome] = ()) -> AsyncGenerator[tuple[BatchRow, ...]]:
        """Rows in order, page by page; of these outcomes, or all."""
        after = -1
        while page := await self._rows_after(id, outcomes, after):
            yield page
            after = page[-1].n

    async def _rows_after(self, id: str, outcomes: Sequence[RowOutcome], after: int) -> tuple[BatchRow, ...]:
        return await self._database.read(lambda side: _rows(side, id, outcomes, after))

    async def delete(self, id: str) -> bool:
        """Forget a batch that has ended, with its rows; whether there was one."""
        marks = ", ".join("?" * len(ENDED))
        query = f"DELETE FROM batches WHERE id = ? AND status IN ({marks})"  # noqa: S608
        return await self._database.write(lambda side: side.execute(query, (id, *ENDED)).rowcount > 0)

    async def sweep(self) -> int:
        """Forget batches that ended more than thirty days after they were made; how many."""
        marks = ", ".join("?" * len(ENDED))
        query = f"DELETE FROM batches WHERE created <= ? AND status IN ({marks})"  # noqa: S608
        values = (self._now() - _KEPT_SECONDS, *ENDED)
        return await self._database.write(lambda side: side.execute(query, values).rowcount)

    def _now(self) -> int:
        return int(self._clock())


def _get(side: sqlite3.Connection, id: str) -> BatchRecord | None:
    row = side.execute("SELECT * FROM batches WHERE id = ?", (id,)).fetchone()
    return _record(row) if row is not None else None


def _page(
    side: sqlite3.Connection, surface: str, tenant: str, limit: int, after: str | None, before: str | None
) -> BatchPage | None:
    where, values = ["surface = ?", "tenant = ?"], [surface, tenant]
    cursor = after or before
    if cursor is not None:
        found = side.execute(
            "SELECT seq FROM batches WHERE id = ? AND surface = ? AND tenant = ?", (cursor, surface, tenant)
        ).fetchone()
        if found is None:
            return None
        where.append("seq < ?" if after else "seq > ?")
        values.append(found["seq"])
    backwards = before is not None and not after
    query = f"SELECT * FROM batches WHERE {' AND '.join(where)} ORDER BY seq {'ASC' if backwards else 'DESC'} LIMIT ?"  # noqa: S608
    rows = side.execute(query, (*values, limit + 1)).fetchall()
    records = [_record(row) for row in rows[:limit]]
    return BatchPage(tuple(reversed(records) if backwards else records), len(rows) > limit)


def _rows(side: sqlite3.Connection, id: str, outcomes: Sequence[RowOutcome], after: int) -> tuple[BatchRow, ...]:
    chosen = f" AND outcome IN ({', '.join('?' * len(outcomes))})" if outcomes else ""
    query = f"SELECT {_ROW} FROM batch_rows WHERE batch = ? AND n > ?{chosen} ORDER BY n LIMIT ?"  # noqa: S608
    found = side.execute(query, (id, after, *outcomes, _PAGE_ROWS)).fetchall()
    return tuple(BatchRow(**dict(row)) for row in found)


def _add_rows(side: sqlite3.Connection, id: str, first: int, rows: Iterable[NewRow]) -> None:
    outcomes: list[RowOutcome] = []
    values: list[tuple[object, ...]] = []
    for n, row in enumerate(rows, start=first):
        outcomes.append("invalid" if row.code else "pending")
        known = (id, n, new_id("batch_req_"), row.custom_id, row.method, row.path, row.body)
        values.append((*known, outcomes[-1], row.code, row.message))
    side.executemany(
        "INSERT INTO batch_rows (batch, n, id, custom_id, method, path, body, outcome, code, message) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    side.execute("UPDATE batches SET total = total + ? WHERE id = ?", (len(values), id))
    _count(side, id, "invalid", outcomes.count("invalid"))


def _count(side: sqlite3.Connection, id: str, outcome: RowOutcome, many: int) -> None:
    column = _COUNTED[outcome]
    side.execute(f"UPDATE batches SET {column} = {column} + ? WHERE id = ?", (many, id))  # noqa: S608


def _add_usage(side: sqlite3.Connection, id: str, usage: RowUsage) -> None:
    names = usage.__struct_fields__
    setting = ", ".join(f"{name} = {name} + ?" for name in names)
    side.execute(f"UPDATE batches SET {setting} WHERE id = ?", (*structs.astuple(usage), id))  # noqa: S608


def _update(side: sqlite3.Connection, record: BatchRecord) -> None:
    fields = _fields(record)
    setting = ", ".join(f"{name} = ?" for name in fields)
    side.execute(f"UPDATE batches SET {setting} WHERE id = ?", (*fields.values(), record.id))  # noqa: S608


def _fields(record: BatchRecord) -> dict[str, object]:
    fields: dict[str, object] = {name: getattr(record, name) for name in _PLAIN}
    fields["metadata"] = None if record.metadata is None else msgspec.json.encode(record.metadata)
    fields["times"] = msgspec.json.encode(record.times)
    fields["faults"] = msgspec.json.encode(record.faults)
    return fields


def _record(row: sqlite3.Row) -> BatchRecord:
    fields = {name: row[name] for name in _PLAIN}
    metadata = row["metadata"]
    return BatchRecord(
        **fields,
        metadata=None if metadata is None else msgspec.json.decode(metadata, type=dict[str, str]),
        times=msgspec.json.decode(row["times"], type=dict[str, int]),
        faults=msgspec.json.decode(row["faults"], type=tuple[BatchFault, ...]),
        usage=RowUsage(**{name: row[name] for name in RowUsage.__struct_fields__}),
    )
