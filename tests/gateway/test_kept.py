"""Streams that outlive their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.core.errors import InvalidRequest, NotFound
from dragoman.dialects.base import Frame
from dragoman.gateway import kept as module
from dragoman.gateway.kept import KeptStreams

pytestmark = pytest.mark.anyio

LOST = InvalidRequest("lost")


class Source:
    """Frames that come when they are let."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.gate = asyncio.Semaphore(0)
        self.closed = False

    def __aiter__(self) -> Source:
        return self

    async def __anext__(self) -> list[Frame]:
        await self.gate.acquire()
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return [Frame(b"%d" % self._left)]

    async def aclose(self) -> None:
        self.closed = True


def let(source: Source, count: int) -> None:
    for _ in range(count):
        source.gate.release()


async def keep(streams: KeptStreams, source: Source, name: str = "c") -> AsyncIterator[list[Frame]]:
    stream: Any = source
    return await streams.keep(name, stream)


async def test_the_client_that_is_here_gets_every_frame() -> None:
    streams, source = KeptStreams(), Source(3)
    live = await keep(streams, source)
    let(source, 4)
    assert [frame.data for batch in [batch async for batch in live] for frame in batch] == [b"2", b"1", b"0"]
    assert source.closed
    await streams.close()


async def test_the_stream_goes_on_without_its_client_which_comes_back() -> None:
    streams, source = KeptStreams(), Source(3)
    live: Any = await keep(streams, source)
    let(source, 1)
    await live.__anext__()
    await live.aclose()
    rest = streams.resume("c", 3, LOST)
    let(source, 3)
    got = b"".join([piece async for piece in rest])
    assert got == b"data: 2\n\ndata: 1\n\ndata: 0\n\n"[3:]
    (shown,) = streams.find(["c", "c", "zz"])
    assert (shown.done, shown.bytes) == (True, 27)
    await streams.close()


async def test_what_is_lost_or_unknown_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    streams, source = KeptStreams(), Source(3)
    live = await keep(streams, source)
    let(source, 4)
    assert len([batch async for batch in live]) == 3
    with pytest.raises(InvalidRequest):
        streams.resume("c", 0, LOST)
    assert b"".join([piece async for piece in streams.resume("c", 18, LOST)]) == b"data: 0\n\n"
    with pytest.raises(NotFound):
        streams.resume("zz", 0, LOST)
    await streams.close()


async def test_dropping_cancels() -> None:
    streams, source = KeptStreams(), Source(3)
    live = await keep(streams, source)
    await streams.drop("c")
    await streams.drop("c")
    assert source.closed
    assert [batch async for batch in live] == []
    assert streams.find(["c"]) == ()


async def test_a_new_stream_takes_the_place_of_the_old_one() -> None:
    streams, first, second = KeptStreams(), Source(1), Source(1)
    await keep(streams, first)
    live = await keep(streams, second)
    assert first.closed
    let(second, 2)
    assert len([batch async for batch in live]) == 1
    await streams.close()


async def test_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 2)
    streams, sources = KeptStreams(), [Source(1) for _ in range(3)]
    for number, source in enumerate(sources):
        await keep(streams, source, str(number))
    assert [source.closed for source in sources] == [True, False, False]
    await streams.close()
