"""A proxy before the server that remembers what agents sent and were answered. Knows no wire."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP = {
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
}
_PATIENCE = 600
_PIECE = 65536


@dataclass
class Exchange:
    """One request and its answer. Times in seconds from the request on, one for each piece of the answer."""

    method: str
    path: str
    headers: dict[str, str]
    sent: bytes
    status: int = 0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def route(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"

    @property
    def answer(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    def first(self, mark: str) -> float:
        """When the answer first had a match of the regex `mark` in it."""
        seen = b""
        for at, piece in self.pieces:
            seen += piece
            if re.search(mark.encode(), seen):
                return at
        raise ValueError(f"the answer to {self.route} has no {mark}: {self.answer[:300]!r}")


class Tap:
    """Where agents are sent, and what came by."""

    def __init__(self, url: str, exchanges: list[Exchange]) -> None:
        self.url = url
        self._exchanges = exchanges

    def take(self) -> list[Exchange]:
        """The exchanges since the last time."""
        taken, self._exchanges[:] = list(self._exchanges), []
        return taken


@contextmanager
def tapped(url: str, edit: Callable[[bytes], bytes] = bytes) -> Iterator[Tap]:
    """A tap before the server at `url`, until the block ends. `edit` changes bodies on their way."""
    exchanges: list[Exchange] = []
    port = urlsplit(url).port

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def __getattr__(self, name: str) -> Callable[[], None]:
            """Every method is forwarded."""
            if not name.startswith("do_"):
                raise AttributeError(name)
            return lambda: _forward(self, port or 80, exchanges, edit)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Tap(f"http://127.0.0.1:{server.server_address[1]}", exchanges)
    finally:
        server.shutdown()
        server.server_close()


def _forward(
    handler: BaseHTTPRequestHandler, port: int, exchanges: list[Exchange], edit: Callable[[bytes], bytes]
) -> None:
    began = time.perf_counter()
    body = edit(handler.rfile.read(int(handler.headers.get("content-length") or 0)))
    headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP}
    exchange = Exchange(handler.command, handler.path, headers, body)
    exchanges.append(exchange)
    upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    try:
        upstream.request(handler.command, handler.path, body or None, headers)
        reply = upstream.getresponse()
        exchange.status = reply.status
        _head(handler, reply)
        while piece := reply.read1(_PIECE):
            exchange.pieces.append((time.perf_counter() - began, piece))
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if _has_body(handler, reply):
            handler.wfile.write(b"0\r\n\r\n")
    except (ConnectionError, http.client.HTTPException):
        handler.close_connection = True  # one of the two went away: no fault of the other's
    finally:
        upstream.close()


def _has_body(handler: BaseHTTPRequestHandler, reply: http.client.HTTPResponse) -> bool:
    return handler.command != "HEAD" and reply.status not in (204, 304)


def _head(handler: BaseHTTPRequestHandler, reply: http.client.HTTPResponse) -> None:
    handler.send_response(reply.status)
    for name, value in reply.getheaders():
        if name.lower() not in {*_HOP, "content-length", "date", "server"}:
            handler.send_header(name, value)
    if _has_body(handler, reply):
        handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
