"""Notices that the client left. Knows nothing of what was being done for it."""

from __future__ import annotations

from starlette.types import Receive


class ClientGone(Exception):
    """The client closed the connection; there is nobody to answer."""


async def disconnected(receive: Receive) -> None:
    """Return when the client has left or the response is complete. Only after the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass
