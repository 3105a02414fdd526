"""Runs the rows of batches through the gateway, as if a client had sent them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from dragoman.core.errors import InvalidRequest, NotFound
from dragoman.core.ids import new_id
from dragoman.dialects.base import Dialect, WireRequest
from dragoman.gateway.reply import Download, Gateway, Stream, Whole
from dragoman.http.routes import RouteTable
from dragoman.jobs.batch import RowReply
from dragoman.jobs.lanes import Load
from dragoman.service.models import ModelRoster

_HEADERS = {"content-type": "application/json"}


class RowDesk:
    """Implements `jobs.batch.RowCall` on the endpoint rows of `dialects`."""

    def __init__(self, gateway: Gateway, dialects: Sequence[Dialect]) -> None:
        self._gateway = gateway
        self._routes = RouteTable(dialects)

    async def __call__(self, method: str, path: str, body: bytes) -> RowReply:
        """See `jobs.batch.RowCall`."""
        match = self._routes.find(method, path, path)
        ident = new_id(match.dialect.request_id_prefix)
        if match.endpoint is None:
            error = match.dialect.error(NotFound(f"There is no {path} on this server."), ident)
            return RowReply(error.status, error.body, ident)
        wire = WireRequest(method=method, path=path, body=body, params=match.params, headers=_HEADERS)
        reply = await self._gateway.call(match.dialect, match.endpoint, wire, ident)
        if isinstance(reply, Whole):
            return RowReply(reply.status, reply.body, ident)
        await _close(reply)
        error = match.dialect.error(InvalidRequest("Requests of a batch cannot be streamed."), ident)
        return RowReply(error.status, error.body, ident)


def load_of(roster: ModelRoster, draining: Callable[[], bool]) -> Load:
    """How busy the engine of the default model is; a server that drains has no lanes."""
    if draining():
        return Load(0, 0, 0)
    stats = roster.default.backend.stats()
    return Load(stats.lanes, stats.running, stats.waiting)


class _Closable(Protocol):
    async def aclose(self) -> None: ...


async def _close(reply: Stream | Download) -> None:
    source = reply.frames if isinstance(reply, Stream) else reply.pieces
    await cast("_Closable", source).aclose()
