from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.stores.responses import StoredResponse
from dragoman.stores.stores import StoreLimits, Stores, open_stores

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stores(tmp_path: Path, clock: Clock) -> AsyncIterator[Stores]:
    made = await open_stores(tmp_path / "s", StoreLimits(responses_bytes=100), clock=clock)
    yield made
    await made.close()


def response(id: str, size: int = 10, **fields) -> StoredResponse:
    known = {"created": 1000, "expires": 2000, "status": "completed", **fields}
    return StoredResponse(id=id, body=b"b" * (size - 4), items=b"[]", context=b"cc", **known)


async def test_put_get_replace_delete(stores: Stores) -> None:
    store = stores.responses
    made = response("a", previous="z")
    assert await store.put(made)
    assert await store.get("a") == made
    assert await store.get("a", tenant="other") is None
    done = replace(made, status="failed", body=b"new")
    assert await store.put(done)
    assert await store.get("a") == done
    assert await store.with_status("failed", "queued") == (done,)
    assert not await store.delete("a", tenant="other")
    assert await store.delete("a")
    assert not await store.delete("a")
    assert await store.get("a") is None


async def test_time_ends_them(stores: Stores, clock: Clock) -> None:
    await stores.responses.put(response("a"))
    clock.now = 2000
    assert await stores.responses.get("a") is None
    assert not await stores.responses.delete("a")
    assert await stores.responses.sweep() == 1


async def test_the_oldest_make_room(stores: Stores) -> None:
    store = stores.responses
    for n in range(10):
        assert await store.put(response(str(n)))
    assert await store.put(response("0", 20))  # grows, and is spared though it is the oldest
    assert [n for n in range(10) if await store.get(str(n)) is not None] == [0, *range(2, 10)]
    assert await store.put(response("big", 95))
    assert [id for id in (*map(str, range(10)), "big") if await store.get(id) is not None] == ["big"]
    assert not await store.put(response("huge", 101))
    assert await store.get("big") is not None
