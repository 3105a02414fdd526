"""The ASGI application: every endpoint row behind one door. Knows no dialect's words and no engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from msgspec import Struct, structs
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from dragoman.core.errors import DragomanError, MethodNotAllowed, NotFound, Unavailable
from dragoman.dialects.base import Dialect, Endpoint, WireRequest
from dragoman.gateway.reply import Gateway, Uploads, Whole
from dragoman.http.body import BodyReader, Unread
from dragoman.http.disconnect import ClientGone
from dragoman.http.docs_page import docs_endpoint
from dragoman.http.door import RETRY_SECONDS, Door
from dragoman.http.drain import Drain
from dragoman.http.exchange import Exchange
from dragoman.http.incoming import Incoming, read_head
from dragoman.http.multipart import OVERHEAD, FormReader, file_too_large
from dragoman.http.openapi import openapi_endpoint
from dragoman.http.options import HttpOptions
from dragoman.http.refusal import refusal
from dragoman.http.request_id import HEADER, request_id
from dragoman.http.responder import RawHeaders, Responder
from dragoman.http.routes import Match, RouteTable
from dragoman.http.upload import RawUpload

Lifespan = Callable[[], AbstractAsyncContextManager[None]]

_log = logging.getLogger(__name__)
_NOTHING = Whole(status=200, body=b"", content_type="text/html")  # as llama-server answers OPTIONS


class Visit(Struct, frozen=True):
    """One request with what has been found out about it."""

    head: Incoming
    match: Match
    ident: str
    receive: Receive
    responder: Responder


class HttpApp:
    """ASGI application. Made by `create_app`."""

    def __init__(
        self, gateway: Gateway, routes: RouteTable, options: HttpOptions, drain: Drain, lifespan: Lifespan
    ) -> None:
        self.options = options
        self.drain = drain
        self.lifespan = lifespan
        self._routes = routes
        self._gateway = gateway
        self._door = Door(options, drain)
        self._bodies = BodyReader(options.max_body, options.body_timeout)
        self._lifecycle = Router(lifespan=lambda _: lifespan())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (or the lifespan) as ASGI 3 has it. WebSockets are refused."""
        if scope["type"] == "http":
            with self.drain.request():
                visit = self._receive(scope, receive, send)
                try:
                    await self._serve(visit)
                except asyncio.CancelledError:
                    await self._cut(visit)
        elif scope["type"] == "lifespan":
            await self._lifecycle.lifespan(scope, receive, send)
        else:
            await WebSocketClose()(scope, receive, send)

    def refuse(self, path: str, error: DragomanError) -> Whole:
        """The response to a request too broken to be served, in the envelope that fits `path`."""
        dialect = self._routes.owner(path)
        ident = request_id({}, dialect.request_id_prefix)
        reply = refusal(dialect, error, ident)
        reply.headers.update({HEADER: ident, dialect.request_id_header: ident})
        return reply

    def _receive(self, scope: Scope, receive: Receive, send: Send) -> Visit:
        head = read_head(scope)
        match = self._routes.find(head.method, head.path, head.raw_path, head.headers)
        ident = request_id(head.headers, match.dialect.request_id_prefix)
        responder = Responder(send, receive)
        responder.headers = [*_identity(match.dialect, ident), *self._door.cors(head)]
        return Visit(head, match, ident, receive, responder)

    async def _serve(self, visit: Visit) -> None:
        try:
            await self._answer(visit)
        except ClientGone:
            return
        except Unread as unread:
            reply = refusal(visit.match.dialect, unread.error, visit.ident)
            await visit.responder.final(reply, unread=unread.linger and "expect" not in visit.head.headers)
        except DragomanError as error:
            await self._refuse(visit, error)
        except Exception:
            _log.exception("error while serving %s %r (%s)", visit.head.method, visit.head.path, visit.ident)
            await self._refuse(visit, DragomanError("Internal error; the server log has the details."))

    async def _answer(self, visit: Visit) -> None:
        head, match = visit.head, visit.match
        self._door.admit(head)
        if head.method == "OPTIONS":
            allow = ", ".join(match.allowed).encode() or b"OPTIONS"
            await visit.responder.whole(_NOTHING, [(b"allow", allow), *self._door.preflight(head)])
            return
        self._door.unlock(head, public=match.endpoint is not None and match.endpoint.public)
        endpoint = _endpoint(head, match)
        wire = _wire(head, endpoint, match)
        if (endpoint.form is None and not endpoint.upload) or self._gateway.uploads is None:
            body = await self._bodies.read(head.headers, visit.receive)
            match = match.settled(body)
            wire = structs.replace(wire, body=body)
            await self._call(structs.replace(visit, match=match), match.endpoint or endpoint, wire)
        elif endpoint.upload:
            await self._take_upload(visit, endpoint, wire, self._gateway.uploads)
        else:
            await self._take_form(visit, endpoint, wire, self._gateway.uploads)

    async def _take_form(self, visit: Visit, endpoint: Endpoint, wire: WireRequest, uploads: Uploads) -> None:
        reader = FormReader(visit.head.headers.get("content-type", ""), uploads)
        limit = uploads.limit + OVERHEAD
        pieces = self._bodies.pieces(visit.head.headers, visit.receive, file_too_large(uploads.limit), limit)
        async with aclosing(pieces):
            form = await reader.read(pieces)
        try:
            await self._call(visit, endpoint, structs.replace(wire, form=form))
        finally:
            await asyncio.to_thread(reader.discard)

    async def _take_upload(self, visit: Visit, endpoint: Endpoint, wire: WireRequest, uploads: Uploads) -> None:
        pieces = self._bodies.pieces(visit.head.headers, visit.receive, file_too_large(uploads.limit), uploads.limit)
        async with aclosing(pieces), RawUpload(uploads) as upload:
            form = await upload.read(pieces)
            await self._call(visit, endpoint, structs.replace(wire, form=form))

    async def _call(self, visit: Visit, endpoint: Endpoint, wire: WireRequest) -> None:
        call = self._gateway.call(visit.match.dialect, endpoint, wire, visit.ident)
        exchange = Exchange(visit.responder, visit.receive, self.options.sse_ping, visit.head.method == "HEAD")
        await exchange.run(call)

    async def _refuse(self, visit: Visit, error: DragomanError) -> None:
        """Answer with an error; after the headers are out nothing can be said but by closing the connection."""
        if visit.responder.started:
            return
        close: RawHeaders = [(b"connection", b"close")] if self.drain.draining else []
        await visit.responder.whole(refusal(visit.match.dialect, error, visit.ident), close)

    async def _cut(self, visit: Visit) -> None:
        """This request was cancelled: by the end of the drain, which the client is told, or from outside."""
        task = asyncio.current_task()
        if not self.drain.cut or task is None:
            raise asyncio.CancelledError
        task.uncancel()
        await self._refuse(visit, Unavailable("The server was shut down.", retry_after=RETRY_SECONDS))


def create_app(
    gateway: Gateway,
    dialects: Sequence[Dialect],
    options: HttpOptions,
    *,
    drain: Drain | None = None,
    lifespan: Lifespan | None = None,
) -> HttpApp:
    """The application for these tables; the first dialect answers for paths that no dialect claims.

    `lifespan` is entered before the first request and left after the last. Raises ValueError when two rows collide.
    """
    routes = RouteTable(dialects)
    routes.add(dialects[0], openapi_endpoint(routes.rows))
    routes.add(dialects[0], docs_endpoint())
    return HttpApp(gateway, routes, options, drain or Drain(), lifespan or _no_lifespan)


@asynccontextmanager
async def _no_lifespan() -> AsyncGenerator[None]:
    yield


def _identity(dialect: Dialect, ident: str) -> RawHeaders:
    value = ident.encode()
    headers = [(HEADER.encode(), value)]
    if dialect.request_id_header != HEADER:
        headers.append((dialect.request_id_header.encode(), value))
    return headers


def _endpoint(head: Incoming, match: Match) -> Endpoint:
    if match.endpoint is not None:
        return match.endpoint
    path = head.path[:200]
    if match.allowed:
        raise MethodNotAllowed(f"{head.method} is not allowed on {path}.", allowed=match.allowed)
    raise NotFound(f"There is no {path} on this server.")


def _wire(head: Incoming, endpoint: Endpoint, match: Match) -> WireRequest:
    return WireRequest(
        method=endpoint.method,
        path=head.path,
        params=match.params,
        query=head.query(),
        headers=head.shown_headers(),
    )
