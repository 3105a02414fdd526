"""One ASGI application for several ports, each with one of its own. Knows no route."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from dragoman.http.app import HttpApp


class Ports:
    """Requests go to the application of the port they came in on, those of any other port to `home`."""

    def __init__(self, home: HttpApp, apps: Mapping[int, HttpApp]) -> None:
        self._home = home
        self._apps = dict(apps)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI 3 has it."""
        server: tuple[str, int | None] | None = scope.get("server")
        port = server[1] if server else None
        app = self._home if port is None else self._apps.get(port, self._home)
        await app(scope, receive, send)
