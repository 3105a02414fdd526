"""Finds the endpoint row for a method and path. Knows paths, not what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from re import Pattern
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from starlette.routing import compile_path

from dragoman.dialects.base import Dialect, Endpoint

Row = tuple[Dialect, Endpoint]

_NO_HEADERS: Mapping[str, str] = {}


class Match(Struct, frozen=True):
    """What a path leads to.

    `dialect` writes the errors in any case. No `endpoint` and no `allowed`: no such path; no `endpoint` but
    `allowed`: the path exists, with these methods. `rivals` are rows of the same method and path that take the request
    when its body has their keys.
    """

    dialect: Dialect
    endpoint: Endpoint | None = None
    params: dict[str, str] = {}
    allowed: tuple[str, ...] = ()
    rivals: tuple[Row, ...] = ()

    def settled(self, body: bytes) -> Match:
        """The match once the body is known."""
        if not self.rivals:
            return self
        keys = keys_of(body)
        for dialect, endpoint in self.rivals:
            if any(wanted <= keys for wanted in endpoint.keys):
                return Match(dialect, endpoint, self.params)
        return self


class _Place:
    """All rows of one path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._chosen: list[Row] = []
        self._by_keys: list[Row] = []

    def add(self, dialect: Dialect, endpoint: Endpoint) -> None:
        if endpoint.when is not None:
            self._chosen.append((dialect, endpoint))
            return
        if endpoint.keys:
            self._by_keys.append((dialect, endpoint))
            return
        taken = self.rows.get(endpoint.method)
        if taken is not None:
            names = f"{taken[0].name} and {dialect.name}"
            raise ValueError(f"{endpoint.method} {endpoint.path} is mounted twice: by {names}")
        self.rows[endpoint.method] = (dialect, endpoint)

    def methods(self) -> tuple[str, ...]:
        """Methods that are answered, HEAD for every GET included."""
        return tuple(sorted({*self.rows, *(("HEAD",) if "GET" in self.rows else ())}))

    def match(self, method: str, params: dict[str, str], headers: Mapping[str, str]) -> Match:
        wanted = "GET" if method == "HEAD" and method not in self.rows else method
        row = next((row for row in self._chosen if _chosen(row[1], wanted, headers)), self.rows.get(wanted))
        if row is None:
            first = next(iter(self.rows.values()))
            return Match(first[0], allowed=(*self.methods(), "OPTIONS"))
        rivals = tuple(rival for rival in self._by_keys if rival[1].method == wanted)
        return Match(row[0], row[1], params, rivals=rivals)


class RouteTable:
    """All rows of all dialects. The first dialect answers for paths nobody claims.

    Raises ValueError when two rows have the same method and path.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._default = dialects[0]
        self._static: dict[str, _Place] = {}
        self._patterns: list[tuple[Pattern[str], _Place]] = []
        self._prefixes = sorted(
            ((prefix.rstrip("/"), dialect) for dialect in dialects for prefix in dialect.prefixes),
            key=lambda pair: -len(pair[0]),
        )
        for dialect in dialects:
            for endpoint in dialect.endpoints:
                self.add(dialect, endpoint)

    def add(self, dialect: Dialect, endpoint: Endpoint) -> None:
        """Mount one more row. Raises ValueError when its method and path are taken."""
        self._place(endpoint.path).add(dialect, endpoint)
        # One segment before many, longer literal beginnings first: the most specific pattern wins.
        self._patterns.sort(key=lambda pair: (":path}" in pair[1].path, -pair[1].path.index("{")))

    def rows(self) -> Iterator[tuple[str, Dialect, Endpoint]]:
        """Every mounted method with its row, derived HEAD rows included."""
        for place in (*self._static.values(), *(place for _, place in self._patterns)):
            for method in place.methods():
                dialect, endpoint = place.rows.get(method) or place.rows["GET"]
                yield method, dialect, endpoint

    def find(self, method: str, path: str, raw_path: str, headers: Mapping[str, str] = _NO_HEADERS) -> Match:
        """The row for a percent-decoded path and these headers, whose names are lower case. Parameters are cut from
        `raw_path`, so an encoded slash stays in one."""
        if (place := self._static.get(path)) is not None:
            return place.match(method, {}, headers)
        for pattern, place in self._patterns:
            if (found := pattern.match(raw_path)) is not None:
                params = {name: unquote(value) for name, value in found.groupdict().items()}
                return place.match(method, params, headers)
            if raw_path != path and (found := pattern.match(path)) is not None:
                return place.match(method, found.groupdict(), headers)
        return Match(self.owner(path))

    def owner(self, path: str) -> Dialect:
        """The dialect whose prefix is the longest that starts `path`."""
        for prefix, dialect in self._prefixes:
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
                return dialect
        return self._default

    def _place(self, path: str) -> _Place:
        if "{" not in path:
            return self._static.setdefault(path, _Place(path))
        for _, place in self._patterns:
            if place.path == path:
                return place
        pattern = compile_path(path)[0]
        place = _Place(path)
        self._patterns.append((pattern, place))
        return place


def keys_of(body: bytes) -> frozenset[str]:
    """The keys of a JSON object; none where the body is something else."""
    try:
        return frozenset(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return frozenset()


def _chosen(endpoint: Endpoint, method: str, headers: Mapping[str, str]) -> bool:
    return endpoint.method == method and endpoint.when is not None and endpoint.when(headers)
