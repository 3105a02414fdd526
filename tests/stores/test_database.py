from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.core.errors import StorageFailure, StorageFull
from dragoman.stores.database import Database, open_database
from dragoman.stores.migrations import STEPS

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["file", "memory"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    made = await open_database(tmp_path / "a" / "d.sqlite" if request.param == "file" else None)
    await made.write(lambda side: side.execute("CREATE TABLE t (x INTEGER)").rowcount)
    yield made
    await made.close()


async def rows(database: Database) -> list[int]:
    return await database.read(lambda side: [row["x"] for row in side.execute("SELECT x FROM t ORDER BY x")])


async def test_a_failed_unit_leaves_nothing(database: Database) -> None:
    def half(side: sqlite3.Connection) -> None:
        side.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(half)
    with pytest.raises(StorageFailure):
        await database.write(lambda side: side.execute("INSERT INTO nothing VALUES (1)"))
    assert await rows(database) == []
    await database.write(lambda side: side.execute("INSERT INTO t VALUES (2)").rowcount)
    assert await rows(database) == [2]


async def test_a_full_disk_is_told(database: Database) -> None:
    def limit(side: sqlite3.Connection) -> None:
        side.execute(f"PRAGMA max_page_count = {side.execute('PRAGMA page_count').fetchone()[0]}")

    await database.write(limit)
    with pytest.raises(StorageFull):
        await database.write(
            lambda side: (
                side.execute(
                    "INSERT INTO t SELECT 7 FROM migrations, (SELECT randomblob(9))"
                    " UNION ALL SELECT randomblob(1000000)"
                ).rowcount
            )
        )
    assert await rows(database) == []


async def test_durability(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "d.sqlite")
    settings = await database.write(
        lambda side: [side.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    )
    assert settings == ["wal", 2]
    await database.close()


async def test_readers_cannot_write(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "d.sqlite")
    with pytest.raises(StorageFailure):
        await database.read(lambda side: side.execute("DELETE FROM files").rowcount)
    await database.close()


async def test_closed_twice_and_used_after(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "d.sqlite")
    await database.close()
    await database.close()
    with pytest.raises((StorageFailure, RuntimeError)):
        await database.read(lambda side: side.execute("SELECT 1").fetchone())


async def test_migrations_happen_once(tmp_path: Path) -> None:
    for _ in range(2):
        database = await open_database(tmp_path / "d.sqlite")
        names = await database.read(lambda side: [row["name"] for row in side.execute("SELECT name FROM migrations")])
        assert names == [name for name, _ in STEPS]
        await database.close()


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "d.sqlite")
    await database.write(lambda side: side.execute("INSERT INTO migrations VALUES (99, 'later', 0)").rowcount)
    await database.close()
    with pytest.raises(StorageFailure, match="newer"):
        await open_database(tmp_path / "d.sqlite")


async def test_no_database_at_all(tmp_path: Path) -> None:
    (tmp_path / "d.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageFailure, match="--ephemeral"):
        await open_database(tmp_path / "d.sqlite")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailure, match="cannot be opened"):
        await open_database(tmp_path / "file" / "d.sqlite")
