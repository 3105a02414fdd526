"""The head of a request as ASGI hands it over, read once. Knows no policy and no dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from urllib.parse import parse_qsl

from msgspec import Struct
from starlette.types import Scope

_SECRET = ("authorization", "x-api-key", "proxy-authorization", "cookie")


class Incoming(Struct, frozen=True, kw_only=True):
    """Method, paths and headers. `path` is percent-decoded once (bad UTF-8 becomes U+FFFD), `raw_path` is not.

    Header names are lower case; repeated headers are joined with ', ' (RFC 9110 section 5.3). `header_bytes`
    approximates their size on the wire.
    """

    method: str
    path: str
    raw_path: str
    query_string: str
    http_version: str
    headers: dict[str, str]
    hosts: Sequence[str]
    origins: Sequence[str]
    header_bytes: int

    def query(self) -> dict[str, str]:
        """Query fields; the last of a repeated name counts, lists (`a[]=1&a[]=2`) are joined by commas."""
        fields: dict[str, str] = {}
        for name, value in parse_qsl(self.query_string, keep_blank_values=True) if self.query_string else ():
            fields[name] = f"{fields[name]},{value}" if name.endswith("[]") and name in fields else value
        return fields

    def shown_headers(self) -> dict[str, str]:
        """The headers that may leave this station: all but those that carry secrets."""
        return {name: value for name, value in self.headers.items() if name not in _SECRET}


def read_head(scope: Scope) -> Incoming:
    """The head of the request in `scope` (type http)."""
    headers: dict[str, str] = {}
    hosts: list[str] = []
    origins: list[str] = []
    raw_path = cast("bytes", scope.get("raw_path") or scope["path"].encode())
    query = cast("bytes", scope.get("query_string", b""))
    size = len(raw_path) + len(query)
    for raw_name, raw_value in cast("list[tuple[bytes, bytes]]", scope["headers"]):
        size += len(raw_name) + len(raw_value) + 4
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if name == "host":
            hosts.append(value)
        elif name == "origin":
            origins.append(value)
    return Incoming(
        method=scope["method"],
        path=scope["path"],
        raw_path=raw_path.decode("latin-1"),
        query_string=query.decode("latin-1"),
        http_version=scope.get("http_version", "1.1"),
        headers=headers,
        hosts=hosts,
        origins=origins,
        header_bytes=size,
    )
