"""Host, Origin, CORS, keys, ids and errors at ASGI level."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import Unavailable
from dragoman.gateway.reply import Reply, Whole
from dragoman.http.authority import read_authority, read_origin
from dragoman.http.drain import Drain
from dragoman.http.options import HttpOptions
from tests.http.stub import Frames, StubGateway, ask, make_app, streaming

pytestmark = pytest.mark.anyio


def gated(**options: Any):
    return make_app(StubGateway(), **options)


# --- Host


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST.:8080", 200),
        ("127.0.0.1:1", 200),
        ("127.9.9.9", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("10.0.0.1", 421),
        ("[::2]", 421),
        ("", 400),
        ("a b", 400),
        ("user@localhost", 400),
        ("localhost:port", 400),
        ("[::1", 400),
        ("localhost, evil.example", 400),
    ],
)
async def test_host_on_loopback(host: str, status: int) -> None:
    answer = await ask(gated(), "GET", "/v1/items", {"host": host})
    assert answer.status == status
    if status == 421:
        assert answer.json["alpha"]["code"] == "misdirected_request"


async def test_host_errors_come_in_the_envelope_of_the_path() -> None:
    answer = await ask(gated(), "POST", "/api/chat", {"host": "evil.example"})
    assert answer.json["beta"]["code"] == "misdirected_request"
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("options", "host", "status"),
    [
        ({"allowed_hosts": ("box.lan",)}, "box.lan:8080", 200),
        ({"allowed_hosts": ("BOX.lan:80",)}, "box.lan", 200),
        ({"allowed_hosts": ("box.lan",)}, "other.lan", 421),
        ({"allowed_hosts": ("*",)}, "evil.example", 200),
        ({"host": "localhost"}, "evil.example", 421),
        ({"host": "::1"}, "evil.example", 421),
        ({"host": "0.0.0.0"}, "anything.example", 200),
        ({"host": "::"}, "anything.example", 200),
        ({"host": "0.0.0.0", "allowed_hosts": ("box.lan",)}, "anything.example", 421),
        ({"host": "0.0.0.0", "allowed_hosts": ("box.lan",)}, "127.0.0.1", 200),
        ({"host": "/run/dragoman.sock"}, "%2Frun%2Fdragoman.sock", 200),
        ({"host": "192.168.0.7"}, "anything.example", 200),
    ],
)
async def test_host_by_binding_and_list(options: dict[str, Any], host: str, status: int) -> None:
    assert (await ask(gated(**options), "GET", "/v1/items", {"host": host})).status == status


async def test_missing_and_doubled_host() -> None:
    app = gated()
    assert (await ask(app, "GET", "/v1/items", raw_headers=[(b"accept", b"*/*")])).status == 400
    twice = [(b"host", b"localhost"), (b"host", b"localhost")]
    assert (await ask(app, "GET", "/v1/items", raw_headers=twice)).status == 400
    old = await ask(app, "GET", "/v1/items", raw_headers=[(b"accept", b"*/*")], http_version="1.0")
    assert old.status == 200


# --- Origin and CORS


@pytest.mark.parametrize(
    ("options", "origin", "status"),
    [
        ({}, "http://localhost:3000", 200),
        ({}, "https://127.0.0.1", 200),
        ({}, "http://[::1]:5173", 200),
        ({}, "tauri://localhost", 200),
        ({}, "https://evil.example", 403),
        ({}, "http://localhost.evil.example", 403),
        ({}, "null", 403),
        ({}, "localhost", 403),
        ({}, "http://evil.example/localhost", 403),
        ({}, "http://localhost@evil.example", 403),
        ({"cors_origins": ("https://a.example",)}, "https://a.example", 200),
        ({"cors_origins": ("https://A.example/",)}, "https://a.example", 200),
        ({"cors_origins": ("https://a.example",)}, "http://a.example", 403),
        ({"cors_origins": ("https://a.example",)}, "https://a.example:444", 403),
        ({"cors_origins": ("https://a.example",)}, "http://localhost", 200),
        ({"cors_origins": ("*",)}, "https://evil.example", 200),
        ({"cors_origins": ("*",)}, "null", 200),
    ],
)
async def test_origin(options: dict[str, Any], origin: str, status: int) -> None:
    answer = await ask(gated(**options), "POST", "/v1/echo", {"origin": origin}, b"{}")
    assert answer.status == status
    allowed = answer.headers.get("access-control-allow-origin")
    assert allowed == (origin if status == 200 else None)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("192.168.0.7:8080", "http://192.168.0.7:8080", 200),
        ("192.168.0.7", "http://192.168.0.7:80", 200),
        ("192.168.0.7:8080", "http://192.168.0.7:9090", 403),
        ("box.lan:8080", "http://box.lan:8080", 200),
        ("rebound.example:8080", "http://rebound.example:8080", 403),
    ],
)
async def test_own_origin_counts_only_where_a_rebinding_page_cannot_have_it(
    host: str, origin: str, status: int
) -> None:
    app = gated(host="0.0.0.0")
    if host.startswith("box"):
        app = gated(host="0.0.0.0", allowed_hosts=("box.lan",))
    assert (await ask(app, "POST", "/v1/echo", {"host": host, "origin": origin})).status == status


async def test_several_origins_are_refused() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"origin", b"https://evil.example")]
    answer = await ask(gated(), "GET", "/v1/items", raw_headers=headers)
    assert answer.status == 400
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/v1/echo", "/v1/items/a", "/api/chat", "/nope", "/health"])
async def test_case_38_preflight_needs_no_key(path: str) -> None:
    asked = "authorization,x-api-key,anthropic-version"
    headers = {
        "origin": "http://localhost:3000",
        "access-control-request-method": "POST",
        "access-control-request-headers": asked,
    }
    answer = await ask(gated(api_keys=("k1",)), "OPTIONS", path, headers)
    assert answer.status == 200
    assert answer.body == b""
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert answer.headers["vary"] == "Origin"
    assert answer.headers["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"
    assert answer.headers["access-control-allow-headers"] == asked
    assert int(answer.headers["access-control-max-age"]) > 0


async def test_case_38_preflight_from_a_foreign_origin_is_refused() -> None:
    answer = await ask(gated(), "OPTIONS", "/v1/echo", {"origin": "https://evil.example"})
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "shown",
    [
        {"authorization": "Bearer k2"},
        {"authorization": "bearer  k2 "},
        {"authorization": "k2"},
        {"x-api-key": "k2"},
        {"x-api-key": "Bearer k2"},
        {"authorization": "", "x-api-key": "k2"},
        {"authorization": "Bearer k1", "x-api-key": "nope"},
    ],
)
@pytest.mark.parametrize("path", ["/v1/items", "/api", "/openapi.json"])
async def test_case_38_every_key_header_on_every_route(path: str, shown: dict[str, str]) -> None:
    assert (await ask(gated(api_keys=("k1", "k2")), "GET", path, shown)).status == 200


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"authorization": "Bearer nope"},
        {"authorization": "Bearer nope", "x-api-key": "k1"},
        {"authorization": "Basic k1"},
        {"authorization": "Bearer"},
        {"x-api-key": "k1 k1"},
        {"authorization": "Bearer k"},
        {"authorization": "Bearer k11"},
        {"authorization": "\xff"},
    ],
)
@pytest.mark.parametrize(("path", "name"), [("/v1/items", "alpha"), ("/nope", "alpha"), ("/api/nope", "beta")])
async def test_case_38_refused_in_the_envelope_with_cors(path: str, name: str, shown: dict[str, str]) -> None:
    app = gated(api_keys=("k1", ""))
    answer = await ask(app, "GET", path, {"origin": "http://localhost:3000", **shown})
    assert answer.status == 401
    assert answer.json[name]["code"] == "invalid_api_key"
    assert answer.json[name]["message"] == "Invalid API Key"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert answer.headers["vary"] == "Origin"
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {"x-request-id", "request-id", "retry-after", "x-dragoman-ignored"} <= set(exposed)


async def test_case_38_cors_on_errors_and_streams() -> None:
    gateway = StubGateway()
    gateway.handlers["/v1/stream"] = streaming(Frames())
    app = make_app(gateway)
    origin = {"origin": "http://localhost:3000"}
    for method, path in (("GET", "/nope"), ("PUT", "/v1/echo"), ("POST", "/v1/stream")):
        answer = await ask(app, method, path, origin)
        assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"


async def test_case_38_keys_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    gateway = StubGateway()

    async def broken(wire: Any) -> Reply:
        raise RuntimeError("bug")

    gateway.handlers["/v1/echo"] = broken
    app = make_app(gateway, api_keys=("s3cret",))
    with caplog.at_level(logging.DEBUG):
        await ask(app, "POST", "/v1/echo", {"authorization": "Bearer s3cret"}, b"{}")
        await ask(app, "POST", "/v1/echo", {"authorization": "Bearer wr0ng"}, b"{}")
        logging.getLogger("test").debug("%r %r", HttpOptions(api_keys=("s3cret",)), app._door._keys)
    assert "RuntimeError: bug" in caplog.text
    assert "s3cret" not in caplog.text
    assert "wr0ng" not in caplog.text


async def test_keys_do_not_reach_the_gateway() -> None:
    gateway = StubGateway()
    shown = {"authorization": "Bearer k", "x-api-key": "k", "cookie": "a=b", "anthropic-version": "1"}
    await ask(make_app(gateway, api_keys=("k",)), "GET", "/v1/items", shown)
    assert gateway.wires[0].headers == {"host": "127.0.0.1:8080", "anthropic-version": "1"}


async def test_public_rows_need_no_key() -> None:
    app = gated(api_keys=("k",))
    assert (await ask(app, "GET", "/health")).status == 200
    assert (await ask(app, "HEAD", "/health")).status == 200
    assert (await ask(app, "POST", "/health")).status == 401


# --- ids, routing errors, draining


async def test_request_id_is_the_callers_or_a_new_one() -> None:
    app = gated()
    mine = await ask(app, "GET", "/v1/items", {"x-request-id": "mine-1"})
    assert mine.headers["x-request-id"] == mine.headers["request-id"] == mine.json["id"] == "mine-1"
    for insane in ("", "a b", "x" * 129, "é"):
        answer = await ask(app, "GET", "/v1/items", {"x-request-id": insane})
        assert answer.headers["request-id"].startswith("req_")
        assert answer.headers["request-id"] == answer.headers["x-request-id"]
    beta = await ask(app, "GET", "/api")
    assert "x-request-id" in beta.headers
    assert "request-id" not in beta.headers


async def test_errors_carry_the_request_id() -> None:
    answer = await ask(gated(), "GET", "/nope", {"x-request-id": "mine"})
    assert answer.status == 404
    assert answer.json["alpha"]["id"] == answer.headers["request-id"] == "mine"


async def test_wrong_method() -> None:
    answer = await ask(gated(), "GET", "/api/chat")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST, OPTIONS"
    assert answer.json["beta"]["code"] == "method_not_allowed"


async def test_absurd_headers_are_too_large() -> None:
    answer = await ask(gated(max_header=1000), "GET", "/v1/items", {"x-filler": "x" * 1000})
    assert answer.status == 431
    assert answer.json["alpha"]["code"] == "headers_too_large"
    answer = await ask(gated(max_header=1000), "GET", "/api?" + "x" * 1000)
    assert answer.status == 431
    assert answer.json["beta"]["code"] == "headers_too_large"


async def test_draining_refuses_all_but_public_rows() -> None:
    drain = Drain()
    app = make_app(StubGateway(), drain)
    drain.begin()
    answer = await ask(app, "POST", "/api/chat")
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.headers["connection"] == "close"
    assert answer.json["beta"]["code"] == Unavailable.code
    assert (await ask(app, "GET", "/health")).status == 200
    assert (await ask(app, "OPTIONS", "/api/chat")).status == 200


async def test_query_is_decoded() -> None:
    answer = await ask(gated(), "GET", "/v1/items?a=1&b=&a=2&c=%ff%00&d")
    assert answer.json["query"] == {"a": "2", "b": "", "c": "�\0", "d": ""}


async def test_header_values_cannot_start_new_headers() -> None:
    gateway = StubGateway()

    async def handler(wire: Any) -> Reply:
        return Whole(status=200, body=b"", headers={"x-dragoman-ignored": "a\r\nset-cookie: b, ü, plain %"})

    gateway.handlers["/v1/items"] = handler
    answer = await ask(make_app(gateway), "GET", "/v1/items")
    assert answer.headers["x-dragoman-ignored"] == "a%0D%0Aset-cookie: b, %C3%BC, plain %"


# --- bugs below


async def test_a_bug_in_the_gateway_is_a_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    gateway = StubGateway()

    async def broken(wire: Any) -> Reply:
        raise KeyError("secret detail")

    gateway.handlers["/api/chat"] = broken
    app = make_app(gateway)
    answer = await ask(app, "POST", "/api/chat")
    assert answer.status == 500
    assert answer.json["beta"]["code"] == "internal_error"
    assert b"secret detail" not in answer.body
    assert "secret detail" in caplog.text
    assert (await ask(app, "GET", "/v1/items")).status == 200


async def test_a_bug_in_an_envelope_still_answers(caplog: pytest.LogCaptureFixture) -> None:
    from msgspec.structs import replace

    from dragoman.http.app import create_app
    from tests.http.stub import ALPHA

    def broken(error: Any, request_id: str) -> Any:
        raise TypeError("bug")

    app = create_app(StubGateway(), (replace(ALPHA, error=broken),), HttpOptions())
    answer = await ask(app, "GET", "/nope")
    assert answer.status == 404
    assert answer.json["error"]["code"] == "not_found"
    assert "TypeError: bug" in caplog.text


# --- authorities


@given(st.text(max_size=60))
def test_any_text_is_an_authority_or_not(text: str) -> None:
    authority = read_authority(text)
    if authority is not None:
        assert authority.host == authority.host.lower()
        assert "@" not in authority.host
        assert "/" not in authority.host
    origin = read_origin(text)
    assert origin is None or "://" in text


@given(st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,10}){0,3}", fullmatch=True), st.integers(0, 99999))
def test_written_authorities_are_read_back(host: str, port: int) -> None:
    assert read_authority(f"{host}:{port}") == (host, port)
    origin = read_origin(f"https://{host}:{port}")
    assert origin is not None
    assert origin.authority == (host, port)
