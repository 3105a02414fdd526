"""Streams and disconnects over a real socket, and the writers on their own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import Frame
from dragoman.gateway.reply import Reply, Stream, Whole
from dragoman.http.stream import ndjson, sse
from tests.http.stub import (
    Frames,
    StubGateway,
    connected,
    exchange,
    head,
    make_app,
    read_chunk,
    read_head,
    running,
    streaming,
    until,
)

pytestmark = pytest.mark.anyio

POST = head("POST", "/v1/stream", "Content-Length: 2") + b"{}"
CHAT = head("POST", "/api/chat", "Content-Length: 2") + b"{}"


# --- framing


def test_sse_framing() -> None:
    assert sse([Frame(b'{"a":1}')]) == b'data: {"a":1}\n\n'
    assert sse([Frame(b"{}", "ping"), Frame(b"[DONE]")]) == b"event: ping\ndata: {}\n\ndata: [DONE]\n\n"
    assert sse([Frame(b"a\nb\r\nc")]) == b"data: a\ndata: b\ndata: c\n\n"


def test_ndjson_framing() -> None:
    assert ndjson([Frame(b"{}"), Frame(b"[]")]) == b"{}\n[]\n"


def parse_sse(body: bytes) -> list[tuple[str, str]]:
    """Events as a browser reads them (WHATWG HTML 9.2.6)."""
    events: list[tuple[str, str]] = []
    for block in body.decode().split("\n\n")[:-1]:
        fields = [line.partition(": ") for line in block.split("\n")]
        data = "\n".join(value for name, _, value in fields if name == "data")
        events.append((next((value for name, _, value in fields if name == "event"), ""), data))
    return events


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.text(), max_size=3), st.sampled_from(["", "ping", "a.b"]))))
def test_events_are_read_back(events: list[tuple[dict[str, str], str]]) -> None:
    frames = [Frame(json.dumps(value, ensure_ascii=False).encode(), name) for value, name in events]
    read = [(json.loads(data), name) for name, data in parse_sse(sse(frames))]
    assert read == events


# --- whole streams


async def test_sse_stream() -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1"), Frame(b"2")], [], [Frame(b"3", "end")])
    gateway.handlers["/v1/stream"] = streaming(frames, headers={"x-dragoman-ignored": "a, b"})
    async with running(make_app(gateway)) as site:
        answer = await exchange(site.port, POST)
    assert answer.status == 200
    assert answer.body == b"data: 1\n\ndata: 2\n\nevent: end\ndata: 3\n\n"
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["x-dragoman-ignored"] == "a, b"
    assert "connection" not in answer.headers
    assert frames.closed.is_set()


async def test_batches_become_one_chunk_each() -> None:
    gateway = StubGateway()
    gateway.handlers["/api/chat"] = streaming(Frames([Frame(b"1"), Frame(b"2")], [Frame(b"3")]), "application/x-ndjson")
    async with running(make_app(gateway)) as site, connected(site.port) as (reader, writer):
        writer.write(CHAT)
        assert (await read_head(reader)).headers["content-type"] == "application/x-ndjson"
        assert [await read_chunk(reader) for _ in range(3)] == [b"1\n2\n", b"3\n", b""]


async def test_http_1_0_streams_end_with_the_connection() -> None:
    gateway = StubGateway()
    gateway.handlers["/v1/stream"] = streaming(Frames([Frame(b"1")], [Frame(b"2")]))
    async with running(make_app(gateway)) as site:
        request = head("POST", "/v1/stream", "Content-Length: 2", version="1.0") + b"{}"
        answer = await exchange(site.port, request)
        assert "transfer-encoding" not in answer.headers
        assert answer.headers["connection"] == "close"
        assert answer.body == b"data: 1\n\ndata: 2\n\n"
        whole = await exchange(site.port, head("GET", "/v1/items", version="1.0", host="X: y"))
        assert whole.json["row"] == "GET /v1/items"


async def test_head_of_a_stream_runs_nothing() -> None:
    gateway = StubGateway()
    frames = Frames(None)
    gateway.handlers["/v1/watch"] = streaming(frames)
    async with running(make_app(gateway)) as site, connected(site.port) as (reader, writer):
        writer.write(head("HEAD", "/v1/watch"))
        assert (await read_head(reader)).headers["content-type"] == "text/event-stream"
        await asyncio.wait_for(frames.closed.wait(), 10)
        assert not frames.waiting.is_set()
        writer.write(head("GET", "/health"))
        assert (await read_head(reader)).status == 200


async def test_a_bug_while_streaming_cuts_the_stream_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> AsyncIterator[list[Frame]]:
        yield [Frame(b"1")]
        raise RuntimeError("bug")

    gateway = StubGateway()
    frames = Frames(steps=steps())
    gateway.handlers["/v1/stream"] = streaming(frames)
    async with running(make_app(gateway)) as site:
        async with connected(site.port) as (reader, writer):
            writer.write(POST)
            await read_head(reader)
            rest = await asyncio.wait_for(reader.read(), 10)
        assert rest == b"9\r\ndata: 1\n\n\r\n"  # no last chunk: the client sees that it is cut
        assert (await exchange(site.port, head("GET", "/health"))).status == 200
    assert "RuntimeError: bug" in caplog.text
    assert frames.closed.is_set()


async def test_a_slow_reader_holds_the_stream_back() -> None:
    written = 0

    async def steps() -> AsyncIterator[list[Frame]]:
        nonlocal written
        for _ in range(10_000):
            written += 1
            yield [Frame(b"x" * 10_000)]

    gateway = StubGateway()
    gateway.handlers["/v1/stream"] = streaming(Frames(steps=steps()))
    async with running(make_app(gateway, sse_ping=0.01)) as site, connected(site.port) as (_, writer):
        writer.write(POST)
        await until(lambda: written > 0)
        before = -1
        while written != before:
            before = written
            await asyncio.sleep(0.1)
        assert 0 < written < 5_000


# --- case 21


async def test_case_21_headers_at_once_then_pings_by_the_wall_clock() -> None:
    gateway = StubGateway()
    gateway.handlers["/v1/stream"] = streaming(Frames(None))
    async with running(make_app(gateway, sse_ping=0.05)) as site, connected(site.port) as (reader, writer):
        writer.write(POST)
        assert (await read_head(reader)).status == 200
        assert [await read_chunk(reader) for _ in range(3)] == [b": ping\n\n"] * 3


async def test_case_21_the_dialects_own_ping() -> None:
    gateway = StubGateway()
    ping = Frame(b'{"type":"ping"}', "ping")
    gateway.handlers["/v1/stream"] = streaming(Frames(None), ping=ping)
    async with running(make_app(gateway, sse_ping=0.05)) as site, connected(site.port) as (reader, writer):
        writer.write(POST)
        await read_head(reader)
        assert await read_chunk(reader) == b'event: ping\ndata: {"type":"ping"}\n\n'


async def test_case_21_pings_between_frames_and_an_end_after_them() -> None:
    go = asyncio.Event()

    async def steps() -> AsyncIterator[list[Frame]]:
        yield [Frame(b"1")]
        await go.wait()
        yield [Frame(b"error", "error")]

    gateway = StubGateway()
    gateway.handlers["/v1/stream"] = streaming(Frames(steps=steps()))
    async with running(make_app(gateway, sse_ping=0.05)) as site, connected(site.port) as (reader, writer):
        writer.write(POST)
        await read_head(reader)
        assert await read_chunk(reader) == b"data: 1\n\n"
        assert await read_chunk(reader) == b": ping\n\n"
        go.set()
        rest = [await read_chunk(reader)]
        while rest[-1]:
            rest.append(await read_chunk(reader))
        assert [piece for piece in rest if piece != b": ping\n\n"] == [b"event: error\ndata: error\n\n", b""]


async def test_case_21_no_pings_on_ndjson_nor_when_off_nor_in_whole_answers() -> None:
    gateway = StubGateway()
    go = asyncio.Event()

    async def late(wire: Any) -> Reply:
        await go.wait()
        return Whole(status=200, body=b"whole")

    async def steps() -> AsyncIterator[list[Frame]]:
        await go.wait()
        yield [Frame(b"{}")]

    gateway.handlers["/v1/echo"] = late
    gateway.handlers["/api/chat"] = streaming(Frames(steps=steps()), "application/x-ndjson")
    async with running(make_app(gateway, sse_ping=0.01)) as site:
        asked = [
            asyncio.create_task(exchange(site.port, CHAT)),
            asyncio.create_task(exchange(site.port, head("POST", "/v1/echo"))),
        ]
        await until(lambda: len(gateway.wires) == 2)
        await asyncio.sleep(0.1)
        go.set()
        assert [answer.body for answer in await asyncio.gather(*asked)] == [b"{}\n", b"whole"]
    gateway.handlers["/v1/stream"] = streaming(Frames(None))
    async with running(make_app(gateway, sse_ping=0)) as site, connected(site.port) as (reader, writer):
        writer.write(POST)
        await read_head(reader)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)


# --- case 22


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/x-ndjson"])
async def test_case_22_leaving_a_stream_cancels_and_closes_it(
    content_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1")], [Frame(b"2")], None)
    gateway.handlers["/v1/stream"] = streaming(frames, content_type)
    with caplog.at_level(logging.INFO):
        async with running(make_app(gateway)) as site:
            async with connected(site.port) as (reader, writer):
                writer.write(POST)
                await read_head(reader)
                await read_chunk(reader)
                await asyncio.wait_for(frames.waiting.wait(), 10)
                assert not frames.closed.is_set()
            await asyncio.wait_for(frames.closed.wait(), 10)
            assert frames.cancelled
            await until(lambda: site.server._app.drain.running == 0)
            assert not caplog.records


async def test_case_22_leaving_a_whole_answer_cancels_the_call() -> None:
    gateway = StubGateway()
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work(wire: Any) -> Reply:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    gateway.handlers["/v1/echo"] = work
    async with running(make_app(gateway)) as site:
        async with connected(site.port) as (_, writer):
            writer.write(head("POST", "/v1/echo", "Content-Length: 2") + b"{}")
            await asyncio.wait_for(started.wait(), 10)
            assert not cancelled.is_set()
        await asyncio.wait_for(cancelled.wait(), 10)


async def test_case_22_leaving_before_the_stream_begins_closes_it() -> None:
    """The call ignores its cancellation and hands over a stream that nobody wants any more."""
    gateway = StubGateway()
    frames = Frames([Frame(b"1")])
    started = asyncio.Event()

    async def stubborn(wire: Any) -> Reply:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Stream(content_type="text/event-stream", frames=frames)
        raise AssertionError

    gateway.handlers["/v1/stream"] = stubborn
    async with running(make_app(gateway)) as site:
        async with connected(site.port) as (_, writer):
            writer.write(POST)
            await asyncio.wait_for(started.wait(), 10)
        await asyncio.wait_for(frames.closed.wait(), 10)


async def test_case_22_a_slow_reader_that_leaves_is_noticed() -> None:
    async def steps() -> AsyncIterator[list[Frame]]:
        while True:
            yield [Frame(b"x" * 100_000)]

    gateway = StubGateway()
    frames = Frames(steps=steps())
    gateway.handlers["/v1/stream"] = streaming(frames)
    async with running(make_app(gateway)) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(POST)
        await read_head(reader)
        writer.transport.abort()
        await asyncio.wait_for(frames.closed.wait(), 10)


async def test_case_22_leaving_with_a_request_in_the_pipeline() -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1")], None)
    gateway.handlers["/v1/stream"] = streaming(frames)
    async with running(make_app(gateway)) as site:
        async with connected(site.port) as (reader, writer):
            writer.write(POST + head("GET", "/v1/items"))
            await read_head(reader)
            await asyncio.wait_for(frames.waiting.wait(), 10)
        await asyncio.wait_for(frames.closed.wait(), 10)
    assert [wire.path for wire in gateway.wires] == ["/v1/stream"]


async def test_a_failing_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Frames):
        async def aclose(self) -> None:
            raise RuntimeError("close")

    gateway = StubGateway()
    gateway.handlers["/v1/stream"] = streaming(Broken([Frame(b"1")]))
    async with running(make_app(gateway)) as site:
        assert (await exchange(site.port, POST)).body == b"data: 1\n\n"
    assert "RuntimeError: close" in caplog.text
