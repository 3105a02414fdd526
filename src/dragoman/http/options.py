"""What the HTTP station can be told. Knows nothing of settings files or flags."""

from __future__ import annotations

from msgspec import Struct

from dragoman.http.authority import is_loopback


class HttpOptions(Struct, frozen=True, kw_only=True):
    """Where to listen and how the door is kept. Times in seconds, sizes in bytes.

    `host` is an address, a name, or a path that ends in `.sock` (Unix socket); `port` 0 picks a free one. No
    `api_keys`: no key needed. `allowed_hosts` and `cors_origins` add to loopback; '*' opens either. `max_header`
    bounds request line and headers together. `body_timeout` is the longest wait for the next piece of a request,
    `sse_ping` the silence after which a stream sends a ping (0: never), `drain` the longest time running requests
    may take to finish on shutdown.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    api_keys: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    max_body: int = 64 * 1024 * 1024
    max_header: int = 64 * 1024
    body_timeout: float = 60.0
    sse_ping: float = 15.0
    drain: float = 30.0

    def __repr__(self) -> str:
        return f"HttpOptions(host={self.host!r}, port={self.port}, api_keys={len(self.api_keys)})"

    @property
    def unix_socket(self) -> bool:
        """Whether `host` is the path of a Unix socket."""
        return self.host.endswith(".sock")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the TCP address."""
        return not self.unix_socket and is_loopback(self.host.strip("[]").lower())
