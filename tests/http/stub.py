"""Two small dialects, a scripted gateway, and ways to talk to the app with and without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from dragoman.core.errors import DragomanError
from dragoman.dialects.base import Call, Dialect, Endpoint, ErrorReply, Frame, StaticCall, WireRequest
from dragoman.gateway.reply import Reply, Stream, Whole
from dragoman.http.app import HttpApp, create_app
from dragoman.http.drain import Drain
from dragoman.http.listener import Listener
from dragoman.http.options import HttpOptions
from dragoman.http.server import HttpServer

Handler = Callable[[WireRequest], Awaitable[Reply]]


class EchoBody(Struct):
    text: str
    stream: bool = False


class Inner(Struct):
    deep: int


class NestedBody(Struct):
    inner: Inner


def static(wire: WireRequest) -> Call:
    return StaticCall(body=b"{}")


def envelope(name: str) -> Callable[[DragomanError, str], ErrorReply]:
    def error(error: DragomanError, request_id: str) -> ErrorReply:
        body = {name: {"code": error.code, "message": error.sentence, "field": error.field, "id": request_id}}
        return ErrorReply(error.status, json.dumps(body).encode())

    return error


def row(method: str, path: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, summary=f"{method} {path}", read=static, **more)  # type: ignore[arg-type]


ALPHA = Dialect(
    name="alpha",
    endpoints=(
        row("GET", "/health", public=True),
        row("POST", "/v1/echo", body=EchoBody),
        row("POST", "/v1/stream", body=EchoBody),
        row("GET", "/v1/items"),
        row("POST", "/v1/items", body=NestedBody),
        row("GET", "/v1/items/{name}"),
        row("DELETE", "/v1/items/{name}"),
        row("GET", "/v1/items/{name}/parts"),
        row("GET", "/v1/files/{name:path}"),
        row("GET", "/v1/watch"),
    ),
    error=envelope("alpha"),
    prefixes=("/v1",),
    request_id_header="request-id",
    request_id_prefix="req_",
)
BETA = Dialect(
    name="beta",
    endpoints=(row("POST", "/api/chat", body=EchoBody), row("HEAD", "/api"), row("GET", "/api")),
    error=envelope("beta"),
    stream_type="application/x-ndjson",
    prefixes=("/api", "/v1/beta/"),
    content_type="application/json; charset=utf-8",
)


class StubGateway:
    """Answers with the handler set for the row's path, else echoes what it was given."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.wires: list[WireRequest] = []

    async def call(self, dialect: Dialect, endpoint: Endpoint, wire: WireRequest, request_id: str) -> Reply:
        self.wires.append(wire)
        call = endpoint.read(wire)
        if endpoint.path == "/openapi.json" and isinstance(call, StaticCall):
            return Whole(status=200, body=call.body)
        handler = self.handlers.get(endpoint.path)
        if handler is not None:
            return await handler(wire)
        shown = {
            "dialect": dialect.name,
            "row": f"{endpoint.method} {endpoint.path}",
            "params": dict(wire.params),
            "query": dict(wire.query),
            "body": wire.body.decode("utf-8", "replace"),
            "id": request_id,
        }
        return Whole(status=200, body=json.dumps(shown).encode(), content_type=dialect.content_type)


class Frames:
    """A scripted stream that remembers whether it was closed. An item None waits for ever."""

    def __init__(self, *batches: list[Frame] | None, steps: AsyncIterator[list[Frame]] | None = None) -> None:
        self._batches = list(batches)
        self._steps = steps
        self.closed = asyncio.Event()
        self.waiting = asyncio.Event()
        self.cancelled = False

    def __aiter__(self) -> Frames:
        return self

    async def __anext__(self) -> list[Frame]:
        if self._steps is not None:
            return await anext(self._steps)
        if not self._batches:
            raise StopAsyncIteration
        batch = self._batches.pop(0)
        if batch is None:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            raise AssertionError
        return batch

    async def aclose(self) -> None:
        self.closed.set()


def streaming(frames: Frames, content_type: str = "text/event-stream", **more: Any) -> Handler:
    async def handler(wire: WireRequest) -> Reply:
        return Stream(content_type=content_type, frames=frames, **more)

    return handler


def make_app(gateway: StubGateway, going: Drain | None = None, **options: Any) -> HttpApp:
    return create_app(gateway, (ALPHA, BETA), HttpOptions(**{"port": 0, **options}), drain=going)


class Answer(Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: HttpApp, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", **scope: Any
) -> Answer:
    """One request at ASGI level; the client stays until it has its answer."""
    fields = {"host": "127.0.0.1:8080", **(headers or {})}
    raw = scope.pop("raw_headers", None) or [(n.encode(), v.encode("latin-1")) for n, v in fields.items()]
    sent: list[Any] = []
    inbox = [{"type": "http.request", "body": body, "more_body": False}]
    done = asyncio.Event()

    async def receive() -> Any:
        if inbox:
            return inbox.pop(0)
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            done.set()

    bare, _, query = path.partition("?")
    await app(
        {
            "type": "http",
            "method": method,
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "headers": raw,
            "http_version": "1.1",
            **scope,
        },
        receive,
        send,
    )
    start = sent[0]
    names = [name for name, _ in start["headers"]]
    assert all(names.count(name) == 1 for name in names), names
    answered = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))


class Running(Struct):
    server: HttpServer
    listener: Listener
    task: asyncio.Task[None]

    @property
    def port(self) -> int:
        return self.listener.port


@asynccontextmanager
async def running(app: HttpApp) -> AsyncIterator[Running]:
    """The app on a real socket, in this loop. Stopped at once in the end."""
    up: asyncio.Future[Listener] = asyncio.get_running_loop().create_future()
    server = HttpServer(app)
    task = asyncio.create_task(server.serve(up.set_result, signals=False))
    await asyncio.wait((up, task), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield Running(server, up.result(), task)
    finally:
        if not task.done():
            server.stop()
            server.stop()
        await asyncio.wait_for(task, 10)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def head(method: str, path: str, *lines: str, version: str = "1.1", host: str = "Host: localhost") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", host, *lines, "", ""]).encode("latin-1")


async def raw(port: int, data: bytes) -> bytes:
    """Everything the server sends until it closes the connection."""
    async with connected(port) as (reader, writer):
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 10)


async def exchange(port: int, data: bytes) -> Answer:
    """Send `data` and read one response; the server need not close."""
    async with connected(port) as (reader, writer):
        writer.write(data)
        return await read_response(reader)


async def read_response(reader: asyncio.StreamReader) -> Answer:
    """One response with Content-Length, chunks, or a body that ends with the connection."""
    answer = await read_head(reader)
    if "content-length" in answer.headers:
        answer.body = await asyncio.wait_for(reader.readexactly(int(answer.headers["content-length"])), 10)
    elif answer.headers.get("transfer-encoding") == "chunked":
        while piece := await read_chunk(reader):
            answer.body += piece
    else:
        answer.body = await asyncio.wait_for(reader.read(), 10)
    return answer


async def read_head(reader: asyncio.StreamReader) -> Answer:
    lines = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:] if line)
    return Answer(int(lines[0].split()[1]), {name.lower(): value for name, value in fields.items()}, b"")


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """One chunk of a chunked body; b'' is the last."""
    size = int(await asyncio.wait_for(reader.readline(), 10), 16)
    return (await asyncio.wait_for(reader.readexactly(size + 2), 10))[:-2]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that must come true."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)
