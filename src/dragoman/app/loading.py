"""The gateway while the model loads: the port is open, every answer is 503 until the real gateway takes over."""

from __future__ import annotations

from dragoman.core.errors import Unavailable
from dragoman.dialects.base import Dialect, Endpoint, WireRequest
from dragoman.gateway.reply import Gateway, Reply, Uploads, Whole

RETRY_SECONDS = 2


class LoadingGateway:
    """Implements `gateway.reply.Gateway`. `hand_over` is called once, on the event loop."""

    def __init__(self) -> None:
        self._gateway: Gateway | None = None

    @property
    def ready(self) -> bool:
        """Whether the real gateway has taken over."""
        return self._gateway is not None

    @property
    def uploads(self) -> Uploads | None:
        """See `gateway.reply.Gateway.uploads`."""
        return self._gateway.uploads if self._gateway is not None else None

    def hand_over(self, gateway: Gateway) -> None:
        """From now on `gateway` answers."""
        self._gateway = gateway

    async def call(self, dialect: Dialect, endpoint: Endpoint, wire: WireRequest, request_id: str) -> Reply:
        """See `gateway.reply.Gateway.call`."""
        if self._gateway is not None:
            return await self._gateway.call(dialect, endpoint, wire, request_id)
        # llama-server's own words: clients that wait for it look for them.
        reply = dialect.error(Unavailable("Loading model", retry_after=RETRY_SECONDS), request_id)
        headers = {"retry-after": str(RETRY_SECONDS)}
        return Whole(status=reply.status, body=reply.body, content_type=dialect.content_type, headers=headers)
