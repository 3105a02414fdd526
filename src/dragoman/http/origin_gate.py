"""Decides which web origins may call, and tells browsers so (CORS). Knows no key and no route."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.errors import Forbidden, InvalidRequest
from dragoman.http.authority import Authority, Origin, is_address, is_loopback, read_origin
from dragoman.http.host_gate import HostGate
from dragoman.http.options import HttpOptions

RawHeaders = list[tuple[bytes, bytes]]

METHODS = b"GET, POST, DELETE, OPTIONS"
EXPOSED = b"x-request-id, request-id, retry-after, x-dragoman-ignored, warning"
MAX_AGE = b"7200"  # the longest any current browser keeps a preflight (Chromium's cap)


class OriginGate:
    """Loopback origins, listed ones and the server's own are admitted; '*' admits all, `null` included.

    The server's own origin counts only under an address or a trusted name: under any other name a rebinding page
    would look like it too.
    """

    def __init__(self, options: HttpOptions, hosts: HostGate) -> None:
        self._all = "*" in options.cors_origins
        self._listed = frozenset(origin.lower().rstrip("/") for origin in options.cors_origins)
        self._hosts = hosts

    def admits(self, text: str, host: Authority | None) -> bool:
        """Whether the origin may call a server that was asked for as `host`."""
        if self._all or text.lower() in self._listed:
            return True
        origin = read_origin(text)
        if origin is None:
            return False
        return is_loopback(origin.authority.host) or self._is_own(origin, host)

    def _is_own(self, origin: Origin, host: Authority | None) -> bool:
        if host is None or not origin.names(host):
            return False
        return is_address(host.host) or self._hosts.trusts(host.host)

    def admit(self, values: Sequence[str], host: Authority | None) -> str | None:
        """The admitted origin, None when the caller is no web page.

        Raises InvalidRequest for several Origin headers, Forbidden for an origin that may not call.
        """
        if not values:
            return None
        if len(values) > 1:
            raise InvalidRequest("The request has several Origin headers.", field="origin")
        if not self.admits(values[0], host):
            raise Forbidden(
                "Pages of this origin may not call this server.",
                field="origin",
                remedy="List the origin with --cors-origins.",
            )
        return values[0]

    def headers(self, origin: str) -> RawHeaders:
        """Headers that every response to an admitted origin carries."""
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"vary", b"Origin"),
            (b"access-control-expose-headers", EXPOSED),
            *self._credentials(),
        ]

    def preflight(self, headers: dict[str, str]) -> RawHeaders:
        """Further headers of the answer to OPTIONS: whatever headers the page asks to send may be sent."""
        asked = headers.get("access-control-request-headers", "*").encode("latin-1")
        granted = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", MAX_AGE),
        ]
        if headers.get("access-control-request-private-network") == "true":
            granted.append((b"access-control-allow-private-network", b"true"))
        return granted

    def _credentials(self) -> RawHeaders:
        # As llama-server; but not when every origin is admitted: a proxy in front may authenticate by cookie.
        return [] if self._all else [(b"access-control-allow-credentials", b"true")]
