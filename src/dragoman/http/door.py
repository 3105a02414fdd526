"""The gates every request passes, in order: header size, Host, Origin, key, drain. Knows no route's meaning."""

from __future__ import annotations

from dragoman.core.errors import HeadersTooLarge, Unavailable
from dragoman.http.authority import read_authority
from dragoman.http.drain import Drain
from dragoman.http.host_gate import HostGate
from dragoman.http.incoming import Incoming
from dragoman.http.keys import KeyRing
from dragoman.http.options import HttpOptions
from dragoman.http.origin_gate import OriginGate, RawHeaders

RETRY_SECONDS = 5


class Door:
    """Admits or refuses; remembers nothing between requests."""

    def __init__(self, options: HttpOptions, drain: Drain) -> None:
        self._max_header = options.max_header
        self._hosts = HostGate(options)
        self._origins = OriginGate(options, self._hosts)
        self._keys = KeyRing(options.api_keys)
        self._drain = drain

    def cors(self, head: Incoming) -> RawHeaders:
        """What every response to this request tells a browser; nothing for an origin that may not call."""
        if len(head.origins) != 1:
            return []
        host = read_authority(head.hosts[0]) if len(head.hosts) == 1 else None
        origin = head.origins[0]
        return self._origins.headers(origin) if self._origins.admits(origin, host) else []

    def preflight(self, head: Incoming) -> RawHeaders:
        """Further headers of the answer to OPTIONS."""
        return self._origins.preflight(head.headers) if head.origins else []

    def admit(self, head: Incoming) -> None:
        """Raises HeadersTooLarge, InvalidRequest or MisdirectedRequest (Host), InvalidRequest or Forbidden (Origin)."""
        if head.header_bytes > self._max_header:
            raise HeadersTooLarge(f"The request headers are larger than {self._max_header} bytes.")
        host = self._hosts.admit(head.hosts, head.http_version)
        self._origins.admit(head.origins, host)

    def unlock(self, head: Incoming, public: bool) -> None:
        """Raises AuthenticationFailed without a valid key, Unavailable while draining; public rows need neither."""
        if public:
            return
        self._keys.admit(head.headers)
        if self._drain.draining:
            raise Unavailable("The server is shutting down.", retry_after=RETRY_SECONDS)
