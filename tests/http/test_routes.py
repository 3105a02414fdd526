from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.dialects.base import Endpoint
from dragoman.http.routes import Match, RouteTable
from tests.http.stub import ALPHA, BETA, row

TABLE = RouteTable((ALPHA, BETA))


def find(method: str, raw_path: str) -> Match:
    from urllib.parse import unquote

    return TABLE.find(method, unquote(raw_path), raw_path)


def path_of(match: Match) -> str | None:
    return match.endpoint.path if match.endpoint else None


@pytest.mark.parametrize(
    ("method", "raw_path", "path", "params"),
    [
        ("GET", "/health", "/health", {}),
        ("HEAD", "/health", "/health", {}),
        ("GET", "/v1/items/a", "/v1/items/{name}", {"name": "a"}),
        ("GET", "/v1/items/a/parts", "/v1/items/{name}/parts", {"name": "a"}),
        ("GET", "/v1/items/org%2Fname", "/v1/items/{name}", {"name": "org/name"}),
        ("GET", "/v1/items/a%252Fb", "/v1/items/{name}", {"name": "a%2Fb"}),
        ("GET", "/v1/items/%C3%A9%00", "/v1/items/{name}", {"name": "é\0"}),
        ("GET", "/v1/items/%ff", "/v1/items/{name}", {"name": "�"}),
        ("GET", "/v1/it%65ms/x", "/v1/items/{name}", {"name": "x"}),
        ("GET", "/v1/it%65ms", "/v1/items", {}),
        ("GET", "/v1/files/a/b/../../../etc", "/v1/files/{name:path}", {"name": "a/b/../../../etc"}),
        ("GET", "/v1/files/..%2f..%2fetc", "/v1/files/{name:path}", {"name": "../../etc"}),
        ("DELETE", "/v1/items/a", "/v1/items/{name}", {"name": "a"}),
        ("HEAD", "/api", "/api", {}),
    ],
)
def test_finds_the_row_and_decodes_parameters_once(
    method: str, raw_path: str, path: str, params: dict[str, str]
) -> None:
    match = find(method, raw_path)
    assert path_of(match) == path
    assert match.params == params


def test_explicit_head_row_wins_over_the_derived_one() -> None:
    match = find("HEAD", "/api")
    assert match.endpoint is not None
    assert match.endpoint.method == "HEAD"


@pytest.mark.parametrize(
    ("method", "path", "dialect", "allowed"),
    [
        ("POST", "/health", "alpha", ("GET", "HEAD", "OPTIONS")),
        ("PUT", "/v1/items", "alpha", ("GET", "HEAD", "POST", "OPTIONS")),
        ("POST", "/v1/items/a", "alpha", ("DELETE", "GET", "HEAD", "OPTIONS")),
        ("GET", "/api/chat", "beta", ("POST", "OPTIONS")),
        ("HEAD", "/api/chat", "beta", ("POST", "OPTIONS")),
    ],
)
def test_wrong_method_names_the_allowed_ones(method: str, path: str, dialect: str, allowed: tuple[str, ...]) -> None:
    match = find(method, path)
    assert match.endpoint is None
    assert match.dialect.name == dialect
    assert match.allowed == allowed


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/nope", "alpha"),
        ("/v1/nope", "alpha"),
        ("/api/nope", "beta"),
        ("/apinope", "alpha"),
        ("/v1/beta", "beta"),
        ("/v1/beta/x", "beta"),
        ("/v1/betax", "alpha"),
        ("", "alpha"),
        ("*", "alpha"),
    ],
)
def test_longest_prefix_owns_unknown_paths(path: str, dialect: str) -> None:
    match = find("GET", path)
    assert (match.endpoint, match.allowed) == (None, ())
    assert match.dialect.name == dialect


def test_default_dialect_is_the_first() -> None:
    assert RouteTable((BETA, ALPHA)).owner("/nope").name == "beta"


def test_a_row_mounted_twice_is_refused() -> None:
    twin = replace(BETA, endpoints=(row("GET", "/v1/items"),))
    with pytest.raises(ValueError, match="GET /v1/items is mounted twice: by alpha and beta"):
        RouteTable((ALPHA, twin))


def test_same_path_with_other_method_in_another_dialect() -> None:
    other = replace(BETA, endpoints=(row("POST", "/v1/items/{name}"),))
    match = RouteTable((ALPHA, other)).find("POST", "/v1/items/a", "/v1/items/a")
    assert match.dialect.name == "beta"
    assert match.params == {"name": "a"}


def test_rows_lists_every_mounted_method_once() -> None:
    listed: list[tuple[str, str]] = [(method, endpoint.path) for method, _, endpoint in TABLE.rows()]
    assert len(listed) == len(set(listed))
    tables: tuple[Endpoint, ...] = (*ALPHA.endpoints, *BETA.endpoints)
    derived = {("HEAD", endpoint.path) for endpoint in tables if endpoint.method == "GET"}
    assert set(listed) == {(endpoint.method, endpoint.path) for endpoint in tables} | derived


@given(st.text(max_size=80), st.sampled_from(["GET", "POST", "BREW"]))
def test_any_path_finds_something_or_nothing_but_never_breaks(path: str, method: str) -> None:
    match: Any = TABLE.find(method, path, path)
    assert match.dialect in (ALPHA, BETA)
