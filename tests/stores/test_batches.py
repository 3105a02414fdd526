from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.core.batches import BatchFault, BatchRecord, NewRow, RowUsage
from dragoman.stores.stores import StoreLimits, Stores, open_stores
from tests.stores.test_responses import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stores(tmp_path: Path, clock: Clock) -> AsyncIterator[Stores]:
    made = await open_stores(tmp_path / "s", StoreLimits(), clock=clock)
    yield made
    await made.close()


def record(id: str = "b", **fields) -> BatchRecord:
    known = {"surface": "w", "status": "in_progress", "created": 1000, "expires": 2000, "owner": "me", **fields}
    return BatchRecord(id=id, **known)


def new(n: int, code: str = "") -> NewRow:
    return NewRow(custom_id=f"c{n}", path="/x", body=b"{}", code=code, message=code)


async def test_a_record_comes_back_as_it_was(stores: Stores) -> None:
    made = record(
        metadata={"a": "b"}, times={"in_progress": 1}, faults=(BatchFault("c", "m", 3, "p"),), output_expires=5
    )
    assert await stores.batches.create(made) == made
    assert await stores.batches.get("b") == made
    assert await stores.batches.get("c") is None


async def test_rows_are_counted_once(stores: Stores) -> None:
    store = stores.batches
    made = await store.create(record(), [new(0), new(1, "bad"), new(2), new(3)])
    assert (made.total, made.failed, made.processing) == (4, 1, 3)
    pending = await store.pending("b", -1, 10)
    assert [row.n for row in pending] == [0, 2, 3]
    assert [row.n for row in await store.pending("b", 0, 1)] == [2]
    done = replace(pending[0], outcome="succeeded", status=200, result=b"{}", request_id="r")
    for _ in range(2):
        await store.finish_row(done, RowUsage(4, 3, 2, 1))
    await store.finish_rest("b", "expired", "late", "m")
    await store.finish_row(replace(pending[1], outcome="succeeded", status=200))
    now = await store.get("b")
    assert now is not None
    assert (now.completed, now.failed, now.expired, now.processing, now.usage) == (1, 1, 2, 0, RowUsage(4, 3, 2, 1))
    pages = [page async for page in store.rows("b")]
    assert [(row.n, row.outcome) for page in pages for row in page] == [
        (0, "succeeded"), (1, "invalid"), (2, "expired"), (3, "expired"),
    ]  # fmt: skip
    assert [row.n for page in [page async for page in store.rows("b", ("expired",))] for row in page] == [2, 3]
    assert pages[0][0] == done


async def test_an_end_is_final(stores: Stores, clock: Clock) -> None:
    store = stores.batches
    await store.create(record(), [new(0)])
    clock.now = 1500
    done = await store.advance("b", "cancelled", drop_rows=True)
    assert done is not None
    assert (done.status, done.times) == ("cancelled", {"cancelled": 1500})
    again = await store.advance("b", "completed")
    assert again is not None
    assert again.status == "cancelled"
    assert [page async for page in store.rows("b")] == []
    assert await store.unfinished() == ()
    assert await store.advance("none", "failed") is None


async def test_only_one_adopts(stores: Stores) -> None:
    await stores.batches.create(record())
    assert await stores.batches.adopt("b", "me", "you")
    assert not await stores.batches.adopt("b", "me", "them")


async def test_pages_both_ways(stores: Stores) -> None:
    store = stores.batches
    for n in range(5):
        await store.create(record(str(n)))
    await store.create(record("other", surface="z"))

    async def ids(**where) -> tuple[list[str], bool]:
        page = await store.page("w", **where)
        assert page is not None
        return [batch.id for batch in page.batches], page.more

    assert await ids(limit=2) == (["4", "3"], True)
    assert await ids(limit=3, after="3") == (["2", "1", "0"], False)
    assert await ids(limit=2, before="1") == (["3", "2"], True)
    assert await ids(limit=2, before="3") == (["4"], False)
    assert await store.page("w", limit=2, after="other") is None


async def test_forgetting(stores: Stores, clock: Clock) -> None:
    store = stores.batches
    await store.create(record(), [new(0)])
    assert not await store.delete("b")
    await store.advance("b", "completed")
    assert await store.delete("b")
    assert not await store.delete("b")
    await store.create(record("old", status="completed"))
    await store.create(record("going"))
    clock.now += 31 * 86400
    assert await store.sweep() == 1
    assert [batch.id for batch in await store.unfinished()] == ["going"]
