"""Where a llama.cpp server listens. Pure data; opens no connection."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from dragoman.core.errors import EngineFailure


class Endpoint(Struct, frozen=True, kw_only=True):
    """A Unix socket (`socket` is its path), or `host` and `port`, over TLS or not. `prefix` goes before every path;
    `api_key` is sent as a bearer token, '' for none."""

    socket: str = ""
    host: str = "localhost"
    port: int = 0
    tls: bool = False
    prefix: str = ""
    api_key: str = ""

    def head(self, method: str, path: str, length: int) -> bytes:
        """Request line and headers of a request with a JSON body of `length` bytes. One request per connection:
        a kept-alive connection would hold one of the server's threads."""
        host = self.host if not self.port or self.socket else f"{self.host}:{self.port}"
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        if self.api_key:
            lines.append(f"Authorization: Bearer {self.api_key}")
        if length:
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_url(url: str, api_key: str = "") -> Endpoint:
    """The endpoint of an http or https URL; a password in it is used as the API key unless `api_key` is given.
    Raises EngineFailure."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EngineFailure(f"The llama-server URL is not valid: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EngineFailure("The llama-server URL must look like http://host:port or https://host.")
    key = api_key or unquote(parts.password or "")
    if not key.isascii() or not key.isprintable():
        raise EngineFailure("The API key for llama-server has characters that no header can carry.")
    tls = parts.scheme == "https"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Endpoint(
        host=host,
        port=port or (443 if tls else 80),
        tls=tls,
        prefix=quote(parts.path.rstrip("/"), safe="/%"),
        api_key=key,
    )
