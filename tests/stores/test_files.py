from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.core.errors import PayloadTooLarge, StorageFailure, StorageFull
from dragoman.core.files import FileRecord
from dragoman.stores.stores import StoreLimits, Stores, open_stores
from tests.stores.test_responses import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stores(tmp_path: Path, clock: Clock) -> AsyncIterator[Stores]:
    made = await open_stores(tmp_path / "s", StoreLimits(files_bytes=100), clock=clock)
    yield made
    await made.close()


async def add(stores: Stores, data: bytes = b"data", lifetime: int | None = None) -> FileRecord:
    source = stores.incoming / "upload"
    source.write_bytes(data)
    return await stores.files.add(source, name="n", content_type="", purpose="p", lifetime=lifetime)


async def content(stores: Stores, id: str) -> bytes | None:
    opened = await stores.files.open(id)
    return None if opened is None else b"".join([piece async for piece in opened[1].pieces()])


def blobs(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "s" / "blobs").iterdir())


async def test_nothing_is_left_of_the_upload(stores: Stores, tmp_path: Path) -> None:
    made = await add(stores)
    assert await content(stores, made.id) == b"data"
    assert blobs(tmp_path) == [made.id]
    assert list(stores.incoming.iterdir()) == []
    assert stores.files.path(made).stat().st_mode & 0o077 == 0


async def test_a_reader_reads_on_when_the_file_is_deleted(stores: Stores, tmp_path: Path) -> None:
    made = await add(stores)
    opened = await stores.files.open(made.id)
    assert opened is not None
    assert await stores.files.delete(made.id)
    assert blobs(tmp_path) == []
    assert [piece async for piece in opened[1].pieces()] == [b"data"]


async def test_the_cap(stores: Stores, clock: Clock, tmp_path: Path) -> None:
    await add(stores, b"x" * 60, lifetime=10)
    with pytest.raises(PayloadTooLarge, match="40 are free"):
        await add(stores, b"x" * 41)
    assert len(blobs(tmp_path)) == 1
    clock.now += 10
    await add(stores, b"x" * 100)


async def test_expiry_and_sweep(stores: Stores, clock: Clock, tmp_path: Path) -> None:
    made, other = await add(stores, lifetime=10), await add(stores)
    clock.now += 10
    assert await stores.files.get(made.id) is None
    assert not await stores.files.delete(made.id)
    page = await stores.files.page(limit=5)
    assert page is not None
    assert page.files == (other,)
    behind = await stores.files.page(limit=5, after=made.id, order="asc")
    assert behind is not None
    assert behind.files == (other,)
    await stores.files.sweep()
    assert blobs(tmp_path) == [other.id]


async def test_deleting_page_by_page(stores: Stores, clock: Clock) -> None:
    ids = [(await add(stores)).id for _ in range(5)]
    seen: list[str] = []
    while (page := await stores.files.page(limit=2, after=seen[-1] if seen else None, order="asc")) and page.files:
        for file in page.files:
            seen.append(file.id)
            assert await stores.files.delete(file.id)
    assert seen == ids
    await stores.files.sweep()
    assert await stores.files.page(limit=2, after=ids[0]) is not None
    clock.now += 86400
    await stores.files.sweep()
    assert await stores.files.page(limit=2, after=ids[0]) is None


async def test_readers_close(stores: Stores) -> None:
    made = await add(stores, b"x" * 90)
    for read in (True, False):
        opened = await stores.files.open(made.id)
        assert opened is not None
        pieces = opened[1].pieces()
        if read:
            assert await anext(pieces) == b"x" * 90
        await pieces.aclose()
        await pieces.aclose()
        assert [piece async for piece in pieces] == []


async def test_sweep_takes_only_old_strays(stores: Stores, tmp_path: Path) -> None:
    old, new = (tmp_path / "s" / "blobs" / name for name in ("file-old", "file-new"))
    for path in (old, new):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 7200,) * 2)
    await stores.files.sweep()
    assert blobs(tmp_path) == ["file-new"]


async def test_a_failed_row_takes_its_blob_along(stores: Stores, tmp_path: Path) -> None:
    await stores.database.write(lambda side: side.execute("DROP TABLE files").rowcount)
    with pytest.raises(StorageFailure):
        await add(stores)
    assert blobs(tmp_path) == []


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, StorageFull), (errno.EACCES, StorageFailure)])
async def test_a_failing_disk(stores: Stores, tmp_path: Path, number: int, kind: type[Exception]) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise OSError(number, "no")

    with pytest.raises(OSError, match="no"):
        await stores.files.write(pieces(), name="n", purpose="p", lifetime=None)
    assert blobs(tmp_path) == []
    assert list(stores.incoming.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
async def test_a_full_disk(stores: Stores, tmp_path: Path) -> None:
    (stores.incoming / "file-full").symlink_to("/dev/full")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * 100_000

    with pytest.raises(StorageFull):
        await stores.blobs.write("file-full", pieces())
    assert blobs(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageFailure, match="--state-dir"):
        await open_stores(tmp_path / "s", StoreLimits())


async def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"")
    with pytest.raises(StorageFailure, match="--state-dir"):
        await open_stores(tmp_path / "s", StoreLimits())


async def test_ephemeral_stores_leave_nothing() -> None:
    stores = await open_stores(None, StoreLimits())
    made = await add(stores)
    assert await content(stores, made.id) == b"data"
    folder = stores.incoming.parent.parent
    assert folder.is_dir()
    await stores.close()
    assert not folder.exists()
