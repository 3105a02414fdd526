"""The HTTP client against raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.backend.llamacpp.client import Client, ConnectionLost, Exchange
from dragoman.backend.llamacpp.endpoint import Endpoint, parse_url
from dragoman.core.errors import EngineFailure

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@asynccontextmanager
async def answering(*pieces: bytes, hang: bool = False) -> AsyncIterator[tuple[Client, list[bytes]]]:
    """A server that reads a request's head and answers with `pieces`."""
    heads: list[bytes] = []
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if hang:
            await left.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Client(Endpoint(host="127.0.0.1", port=server.sockets[0].getsockname()[1], api_key="k")), heads
    finally:
        left.set()
        server.close()


async def events(exchange: Exchange) -> list[bytes]:
    found: list[bytes] = []
    while (data := await exchange.next_data()) is not None:
        found.append(data)
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=40))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    body = b': ping\n\ndata: {"a":1}\n\ndata:{"b":"\xf0\x9f\x98\x80"}\r\n\r\ndata: null\n\n'
    raw = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    pieces, rest = [], raw
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]

    async def run() -> list[bytes]:
        exchange = Exchange()
        for piece in (*pieces, rest):
            if piece:
                exchange.data_received(piece)
        return await events(exchange)

    assert asyncio.run(run()) == [b'{"a":1}', b'{"b":"\xf0\x9f\x98\x80"}', b"null"]


async def test_requests_are_http_with_key_and_length() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") as (client, heads):
        assert await client.request("POST", "/x", b"body", patience=5) == (200, b"hi")
    lines = heads[0].decode().split("\r\n")
    assert lines[0] == "POST /x HTTP/1.1"
    assert {"Authorization: Bearer k", "Content-Length: 4", "Connection: close"} <= set(lines)


async def test_a_stream_cut_short_is_a_lost_connection() -> None:
    async with answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n") as (client, _):
        exchange = await client.open("GET", "/")
        assert await exchange.status() == 200
        assert await exchange.next_data() == b"1"
        with pytest.raises(ConnectionLost):
            await exchange.next_data()


async def test_a_body_without_length_ends_with_the_connection() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nall of it") as (client, _):
        assert await client.request("GET", "/", patience=5) == (200, b"all of it")


async def test_silence_can_be_asked_again() -> None:
    async with answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", hang=True) as (client, _):
        exchange = await client.open("GET", "/")
        await exchange.status()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await exchange.next_data(0.01)
        exchange.close()
        exchange.close()
        with pytest.raises(ConnectionLost, match="dropped"):
            await exchange.next_data()


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with answering(hang=True) as (client, _):
        with pytest.raises(ConnectionLost, match="did not answer"):
            await client.request("GET", "/", patience=0.02)


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi"])
async def test_what_is_not_an_answer_is_a_lost_connection(answer: bytes) -> None:
    async with answering(answer) as (client, _):
        with pytest.raises(ConnectionLost):
            await client.request("GET", "/", patience=5)


async def test_nobody_listening() -> None:
    for endpoint in (Endpoint(socket="/nowhere/at.sock"), Endpoint(host="127.0.0.1", port=1)):
        with pytest.raises(ConnectionLost, match="cannot be reached"):
            await Client(endpoint).request("GET", "/", patience=5)


async def test_a_slow_reader_stops_the_flow_and_gets_everything() -> None:
    count = 5000
    body = b"".join(b"data: %d\n\n" % number for number in range(count))
    raw = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    async with answering(raw) as (client, _):
        exchange = await client.open("GET", "/")
        await exchange.status()
        await asyncio.sleep(0.02)
        assert await events(exchange) == [b"%d" % number for number in range(count)]


def test_urls() -> None:
    assert parse_url("http://box:9/base/") == Endpoint(host="box", port=9, prefix="/base")
    assert parse_url("https://u:p%40ss@h") == Endpoint(host="h", port=443, tls=True, api_key="p@ss")
    assert parse_url("http://[::1]:8", "k") == Endpoint(host="[::1]", port=8, api_key="k")
    assert parse_url("http://h").head("GET", "/x", 0).startswith(b"GET /x HTTP/1.1\r\nHost: h:80\r\n")


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "nonsense"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(EngineFailure):
        parse_url(url)


def test_keys_cannot_smuggle_headers() -> None:
    with pytest.raises(EngineFailure):
        parse_url("http://h", "k\r\nX: y")
    with pytest.raises(EngineFailure):
        parse_url("http://u:k%0d%0aX@h")
