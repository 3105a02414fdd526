"""The server over real sockets: robustness, limits, shutdown, addresses."""

from __future__ import annotations

import asyncio
import gzip
import signal
import socket
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman import __version__
from dragoman.core.errors import Unavailable
from dragoman.dialects.base import Frame
from dragoman.gateway.reply import Reply, Whole
from dragoman.http.app import create_app
from dragoman.http.listener import Listener, listen
from dragoman.http.options import HttpOptions
from dragoman.http.server import HttpServer, run
from tests.http.stub import (
    ALPHA,
    Frames,
    StubGateway,
    connected,
    exchange,
    head,
    make_app,
    raw,
    read_chunk,
    read_head,
    read_response,
    running,
    streaming,
    until,
)

pytestmark = pytest.mark.anyio


# --- ordinary traffic


async def test_httpx_talks_to_it() -> None:
    async with running(make_app(StubGateway())) as site, httpx2.AsyncClient(base_url=site.listener.url) as client:
        answer = await client.post("/v1/echo", json={"text": "é"})
        assert answer.status_code == 200
        assert answer.json()["row"] == "POST /v1/echo"
        assert answer.headers["server"] == f"dragoman/{__version__}"
        assert "date" in answer.headers
        packed = gzip.compress(b"packed")
        answer = await client.post("/v1/echo", content=packed, headers={"content-encoding": "gzip"})
        assert answer.json()["body"] == "packed"


async def test_keep_alive_head_and_pipelining() -> None:
    async with running(make_app(StubGateway())) as site, connected(site.port) as (reader, writer):
        writer.write(head("HEAD", "/v1/items"))
        answer = await read_head(reader)
        assert answer.status == 200
        assert int(answer.headers["content-length"]) > 0
        requests = [head("GET", f"/v1/items/{number}") for number in range(5)]
        writer.write(b"".join(requests))
        names = [(await read_response(reader)).json["params"]["name"] for _ in range(5)]
        assert names == ["0", "1", "2", "3", "4"]


async def test_a_flood_of_pipelined_requests_is_cut() -> None:
    gateway = StubGateway()
    gateway.handlers["/v1/echo"] = streaming(Frames(None))
    async with running(make_app(gateway)) as site:
        data = head("POST", "/v1/echo") + head("GET", "/v1/items") * 50
        try:
            sent = await raw(site.port, data)
        except ConnectionError:
            sent = b""
        assert sent.count(b"HTTP/1.1") <= 1
        assert len(gateway.wires) <= 1


async def test_chunked_upload_and_expect_continue() -> None:
    async with running(make_app(StubGateway())) as site:
        chunked = head("POST", "/v1/echo", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        assert (await exchange(site.port, chunked)).json["body"] == "abcde"
        async with connected(site.port) as (reader, writer):
            writer.write(head("POST", "/v1/echo", "Content-Length: 3", "Expect: 100-continue"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"abc")
            assert (await read_response(reader)).json["body"] == "abc"


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_upgrades_are_ignored(protocol: str) -> None:
    async with running(make_app(StubGateway())) as site:
        lines = ("Connection: Upgrade", f"Upgrade: {protocol}", "Content-Length: 3")
        answer = await exchange(site.port, head("POST", "/v1/echo", *lines) + b"abc")
        assert answer.json["body"] == "abc"


# --- broken and hostile traffic


@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/items HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /v1/items HTTP/1.1\r\nHost: localhost\r\nNo colon here\r\n\r\n",
        b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/items HTTP/1.1\r\nHost: localhost\r\nX: \x01\x02\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
    ],
)
async def test_malformed_http_is_refused_in_an_envelope_and_the_next_request_works(data: bytes) -> None:
    async with running(make_app(StubGateway())) as site:
        async with connected(site.port) as (reader, writer):
            writer.write(data)
            answer = await read_response(reader)
            assert 400 <= answer.status < 500
            assert "alpha" in answer.json
        assert (await exchange(site.port, head("GET", "/health"))).status == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/v1/items/%00", 200),
        ("/v1/items/%", 200),
        ("/v1/items/%zz%ff", 200),
        ("/v1/items?q=%ff%fe&q=%", 200),
        ("/v1/files/../../../../etc/passwd", 200),
        ("//v1//items", 404),
        ("/v1/items/", 404),
        ("/v1/items;x=1", 404),
        ("http://localhost/v1/items", 200),
        ("/" + "a/" * 5000, 404),
    ],
)
async def test_odd_targets(target: str, status: int) -> None:
    async with running(make_app(StubGateway())) as site:
        answer = await exchange(site.port, head("GET", target))
        assert answer.status == status
        if status == 200 and "etc" in target:
            assert answer.json["params"]["name"] == "../../../../etc/passwd"


async def test_options_of_the_server_itself() -> None:
    async with running(make_app(StubGateway())) as site:
        assert (await exchange(site.port, head("OPTIONS", "*"))).status in (200, 400)


async def test_too_large_headers_are_431_without_reading_them_all() -> None:
    async with running(make_app(StubGateway(), max_header=8192)) as site:
        answer = await exchange(site.port, head("GET", "/v1/items", "X: " + "x" * 9000))
        assert answer.status == 431
        assert answer.json["alpha"]["code"] == "headers_too_large"
        answer = await exchange(site.port, head("GET", "/api?" + "x" * 9000))
        assert answer.status == 431
        assert "beta" in answer.json
        endless = b"GET /api HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 9000
        answer = await exchange(site.port, endless)
        assert answer.status == 431
        assert "beta" in answer.json


async def test_large_pipelined_bodies_do_not_count_as_headers() -> None:
    async with running(make_app(StubGateway(), max_header=8192)) as site, connected(site.port) as (reader, writer):
        body = b"x" * 60_000
        request = head("POST", "/v1/echo", f"Content-Length: {len(body)}") + body
        writer.write(request * 3 + b"GET /health HT")
        for _ in range(3):
            assert len((await read_response(reader)).json["body"]) == len(body)
        writer.write(b"TP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await read_response(reader)).status == 200


async def test_slow_headers_and_silent_connections_are_dropped() -> None:
    async with running(make_app(StubGateway(), body_timeout=0.1)) as site:
        assert await raw(site.port, b"") == b""
        answer = await raw(site.port, b"GET /v1/items HTTP/1.1\r\nHost: loc")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"request_timeout" in answer


async def test_a_stalled_body_is_408() -> None:
    async with running(make_app(StubGateway(), body_timeout=0.1)) as site:
        answer = await raw(site.port, head("POST", "/v1/echo", "Content-Length: 5") + b"ab")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer


async def test_too_large_bodies_are_413_and_the_client_sees_it() -> None:
    async with running(make_app(StubGateway(), max_body=1000)) as site:
        async with httpx2.AsyncClient(base_url=site.listener.url) as client:
            answer = await client.post("/v1/echo", content=b"x" * 5_000_000)
            assert answer.status_code == 413
            assert answer.json()["alpha"]["code"] == "payload_too_large"
        chunks = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
        chunked = head("POST", "/api/chat", "Transfer-Encoding: chunked") + chunks * 2 + b"0\r\n\r\n"
        assert (await raw(site.port, chunked)).startswith(b"HTTP/1.1 413 ")
        expecting = head("POST", "/v1/echo", "Content-Length: 2000", "Expect: 100-continue")
        assert (await raw(site.port, expecting)).startswith(b"HTTP/1.1 413 ")


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    async with running(make_app(StubGateway(), max_body=1000)) as site:
        request = head("POST", "/v1/echo", "Content-Length: 1000") + b"x" * 1000
        assert (await exchange(site.port, request)).json["body"] == "x" * 1000


async def test_a_client_that_vanishes_while_uploading_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    gateway = StubGateway()
    async with running(make_app(gateway)) as site:
        async with connected(site.port) as (_, writer):
            writer.write(head("POST", "/v1/echo", "Content-Length: 500") + b"half")
            await writer.drain()
        assert (await exchange(site.port, head("GET", "/health"))).status == 200
        assert [wire.path for wire in gateway.wires] == ["/health"]
        assert not caplog.records


async def test_garbage_behind_a_running_request_does_not_get_into_its_answer() -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1")], None)
    gateway.handlers["/v1/echo"] = streaming(frames)
    async with running(make_app(gateway)) as site, connected(site.port) as (reader, writer):
        writer.write(head("POST", "/v1/echo"))
        await read_head(reader)
        assert await read_chunk(reader) == b"data: 1\n\n"
        writer.write(b"\0\0garbage\r\n\r\n")
        try:
            rest = await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            rest = b""
        assert rest == b""
        await asyncio.wait_for(frames.closed.wait(), 10)


# --- shutdown


async def test_the_first_stop_drains() -> None:
    gateway = StubGateway()
    go, started = asyncio.Event(), asyncio.Event()

    async def work(wire: Any) -> Reply:
        started.set()
        await go.wait()
        return Whole(status=200, body=b"done")

    gateway.handlers["/v1/echo"] = work
    async with running(make_app(gateway)) as site:
        running_request = asyncio.create_task(exchange(site.port, head("POST", "/v1/echo")))
        await asyncio.wait_for(started.wait(), 10)
        site.server.stop()
        refused = await exchange(site.port, head("GET", "/v1/items"))
        assert refused.status == 503
        assert "retry-after" in refused.headers
        assert (await exchange(site.port, head("GET", "/health"))).status == 200
        go.set()
        assert (await running_request).body == b"done"
        await asyncio.wait_for(site.task, 10)
    with pytest.raises(OSError):  # noqa: PT011
        await asyncio.open_connection("127.0.0.1", site.port)


async def test_what_does_not_finish_in_time_is_cancelled_and_told() -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1")], None)
    gateway.handlers["/v1/stream"] = streaming(frames)

    async def never(wire: Any) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    gateway.handlers["/v1/echo"] = never
    async with running(make_app(gateway, drain=0.1)) as site, connected(site.port) as (reader, writer):
        writer.write(head("POST", "/v1/stream"))
        await read_head(reader)
        whole = asyncio.create_task(exchange(site.port, head("POST", "/v1/echo")))
        await asyncio.wait_for(frames.waiting.wait(), 10)
        await until(lambda: len(gateway.wires) == 2)
        site.server.stop()
        assert (await whole).status == 503
        assert frames.closed.is_set()
        assert await asyncio.wait_for(reader.read(), 10) == b"9\r\ndata: 1\n\n\r\n"
        await asyncio.wait_for(site.task, 10)


async def test_the_second_stop_does_not_wait() -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1")], None)
    gateway.handlers["/v1/stream"] = streaming(frames)
    async with running(make_app(gateway, drain=1000)) as site, connected(site.port) as (reader, writer):
        writer.write(head("POST", "/v1/stream"))
        await read_head(reader)
        await asyncio.wait_for(frames.waiting.wait(), 10)
        site.server.stop()
        site.server.stop()
        await asyncio.wait_for(site.task, 10)
        assert frames.closed.is_set()


async def test_idle_connections_do_not_hold_the_shutdown_up() -> None:
    async with running(make_app(StubGateway(), drain=1000)) as site, connected(site.port) as (reader, writer):
        writer.write(head("GET", "/health"))
        await read_response(reader)
        site.server.stop()
        await asyncio.wait_for(site.task, 10)


def test_signals_stop_it_and_handlers_are_put_back() -> None:
    gateway = StubGateway()
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> str:
        server = HttpServer(make_app(gateway))
        ports: list[int] = []

        def up(listener: Listener) -> None:
            ports.append(listener.port)
            signal.raise_signal(signal.SIGTERM)

        await asyncio.wait_for(server.serve(up), 10)
        assert ports[0] > 0
        return type(asyncio.get_running_loop()).__module__

    assert threading.current_thread() is threading.main_thread()
    assert run(main()) in ("uvloop", "asyncio.unix_events")
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_start_is_given_up_when_asked_to_stop() -> None:
    seen: list[str] = []
    loading = asyncio.Event()

    @asynccontextmanager
    async def slow():
        try:
            loading.set()
            await asyncio.Event().wait()
            yield
        finally:
            seen.append("cleaned")

    server = HttpServer(create_app(StubGateway(), (ALPHA,), HttpOptions(port=0), lifespan=slow))
    task = asyncio.create_task(server.serve(lambda _: seen.append("up"), signals=False))
    await asyncio.wait_for(loading.wait(), 10)
    server.stop()
    await asyncio.wait_for(task, 10)
    assert seen == ["cleaned"]


async def test_a_cancelled_server_gives_its_port_back() -> None:
    gateway = StubGateway()
    frames = Frames([Frame(b"1")], None)
    gateway.handlers["/v1/stream"] = streaming(frames)
    app = make_app(gateway)
    up: asyncio.Future[Listener] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(HttpServer(app).serve(up.set_result, signals=False))
    port = (await asyncio.wait_for(up, 10)).port
    async with connected(port) as (reader, writer):
        writer.write(head("POST", "/v1/stream"))
        await read_head(reader)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(frames.closed.wait(), 10)
    listen("127.0.0.1", port).close()


async def test_no_content_has_no_length() -> None:
    gateway = StubGateway()

    async def gone(wire: Any) -> Reply:
        return Whole(status=204, body=b"")

    gateway.handlers["/v1/items/{name}"] = gone
    async with running(make_app(gateway)) as site, connected(site.port) as (reader, writer):
        writer.write(head("DELETE", "/v1/items/a"))
        answer = await read_head(reader)
        assert answer.status == 204
        assert not {"content-length", "transfer-encoding", "content-type"} & set(answer.headers)
        writer.write(head("GET", "/health"))
        assert (await read_response(reader)).status == 200


async def test_lifespan_is_around_the_requests_and_its_errors_come_out() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan():
        seen.append("up")
        yield
        seen.append("down")

    app = create_app(StubGateway(), (ALPHA,), HttpOptions(port=0), lifespan=lifespan)
    async with running(app) as site:
        seen.append(str((await exchange(site.port, head("GET", "/health"))).status))
    assert seen == ["up", "200", "down"]

    @asynccontextmanager
    async def broken():
        raise Unavailable("no model")
        yield

    app = create_app(StubGateway(), (ALPHA,), HttpOptions(port=0), lifespan=broken)
    with pytest.raises(Unavailable, match="no model"):
        await HttpServer(app).serve(signals=False)


async def test_asgi_lifespan() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan():
        seen.append("up")
        yield
        seen.append("down")

    app = create_app(StubGateway(), (ALPHA,), HttpOptions(), lifespan=lifespan)
    inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Any:
        return inbox.pop(0)

    async def send(message: Any) -> None:
        seen.append(message["type"])

    await app({"type": "lifespan", "state": {}}, receive, send)
    assert seen == ["up", "lifespan.startup.complete", "down", "lifespan.shutdown.complete"]


# --- addresses


async def test_a_busy_port_is_one_clear_sentence() -> None:
    async with running(make_app(StubGateway())) as site:
        with pytest.raises(Unavailable) as caught:
            await HttpServer(make_app(StubGateway(), port=site.port)).serve(signals=False)
        assert f"Port {site.port} is in use" in caught.value.sentence
        assert "--port" in caught.value.sentence


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("no-such-host.invalid", "cannot be resolved"),
        ("192.0.2.1", "no address of this machine"),
        ("a" * 99, "cannot be resolved"),
    ],
)
def test_bad_addresses_are_explained(host: str, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        listen(host, 0)


def ipv6_works() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not ipv6_works(), reason="no IPv6 here")
@pytest.mark.parametrize("host", ["::1", "[::1]", "::"])
async def test_ipv6(host: str) -> None:
    async with running(make_app(StubGateway(), host=host)) as site:
        reader, writer = await asyncio.open_connection("::1", site.port)
        writer.write(head("GET", "/v1/items", host=f"Host: [::1]:{site.port}"))
        assert (await read_response(reader)).status == 200
        writer.close()
        await writer.wait_closed()
        if host == "::":
            assert (await exchange(site.port, head("GET", "/v1/items"))).status == 200


async def test_localhost_is_every_address_it_resolves_to() -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
    async with running(make_app(StubGateway(), host="localhost")) as site:
        bound = {sock.getsockname()[:2] for sock in site.listener.sockets}
    assert bound
    assert bound <= {(address, site.port) for address in addresses}


def test_urls() -> None:
    assert Listener((), "127.0.0.1", 80).url == "http://127.0.0.1:80"
    assert Listener((), "::1", 80).url == "http://[::1]:80"
    assert Listener((), "a.sock", path="a.sock").url == "unix:a.sock"


async def test_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "d.sock")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()
    async with running(make_app(StubGateway(), host=path)) as site:
        assert site.listener.path == path
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(head("GET", "/v1/items", host="Host: %2Ftmp%2Fd.sock"))
        assert (await read_response(reader)).status == 200
        writer.close()
        await writer.wait_closed()
        with pytest.raises(Unavailable, match="in use"):
            listen(path, 0)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    path.write_text("mine")
    with pytest.raises(Unavailable, match="no socket"):
        listen(str(path), 0)
    assert path.read_text() == "mine"


def test_unix_socket_on_uvloop(tmp_path: Path) -> None:
    path = str(tmp_path / "u.sock")

    async def main() -> int:
        async with running(make_app(StubGateway(), host=path)):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(head("GET", "/v1/items"))
            status = (await read_response(reader)).status
            writer.close()
            await writer.wait_closed()
            return status

    assert run(main()) == 200


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_is_none_is_explained(port: int) -> None:
    with pytest.raises(Unavailable, match="no TCP port"):
        listen("127.0.0.1", port)
