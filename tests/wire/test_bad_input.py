"""Malformed requests: each dialect answers in its own envelope, and the next request works."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tests.support.running import RunningServer

POSTS = {
    "openai_chat": "/v1/chat/completions",
    "openai_completions": "/v1/completions",
    "anthropic": "/v1/messages",
    "llamacpp": "/completion",
    "ollama": "/api/chat",
}
BODIES = {
    "cut": b'{"messages": [',
    "empty": b"",
    "array": b"[]",
    "text": b'"x"',
    "null": b"null",
    "not utf-8": b'{"prompt": "\xff\xfe"}',
    "deep": b'{"messages":' * 1 + b"[" * 100_000,
    "nan": b'{"temperature": NaN}',
}


@pytest.fixture
def client(fake: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=fake.url, timeout=30) as client:
        yield client


def check_envelope(dialect: str, reply: httpx2.Response) -> None:
    body = reply.json()
    if dialect == "anthropic":
        assert body["type"] == "error"
        assert {"type", "message"} <= set(body["error"])
        assert reply.headers["request-id"]
    elif dialect == "ollama":
        assert isinstance(body["error"], str)
    elif dialect == "llamacpp":
        assert set(body["error"]) >= {"code", "message", "type"}
        assert body["error"]["code"] == reply.status_code
    else:
        assert {"message", "type", "param", "code"} == set(body["error"])


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("dialect", POSTS)
def test_malformed_bodies(client: httpx2.Client, dialect: str, body: bytes) -> None:
    reply = client.post(POSTS[dialect], content=body)
    # llama-server answers malformed JSON with 500; its clients may depend on it.
    assert reply.status_code == 400 or (dialect == "llamacpp" and reply.status_code == 500)
    check_envelope(dialect, reply)
    assert client.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize("dialect", POSTS)
def test_wrong_method_and_unknown_path(client: httpx2.Client, dialect: str) -> None:
    reply = client.put(POSTS[dialect], content=b"{}")
    assert reply.status_code in (404, 405)
    check_envelope(dialect, reply)
    reply = client.post(POSTS[dialect].rsplit("/", 1)[0] + "/no-such-thing", json={})
    assert reply.status_code == 404


@pytest.mark.parametrize("dialect", POSTS)
def test_oversized_body(client: httpx2.Client, dialect: str) -> None:
    reply = client.post(POSTS[dialect], content=b" " * (64 * 1024 * 1024 + 1))
    assert reply.status_code == 413
    check_envelope(dialect, reply)


def test_foreign_host_and_origin(client: httpx2.Client) -> None:
    assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/v1/models", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/v1/models", headers={"origin": "http://localhost:3000"}).status_code == 200


def test_openapi_lists_every_route(client: httpx2.Client) -> None:
    from dragoman.app.room import DIALECTS

    paths = client.get("/openapi.json").json()["paths"]
    for dialect in DIALECTS:
        for endpoint in dialect.endpoints:
            listed = paths[endpoint.path.replace(":path}", "}")]
            assert endpoint.method.lower() in listed


def test_metrics_count(client: httpx2.Client) -> None:
    client.post("/completion", json={"prompt": "WORDS"})
    text = client.get("/metrics").text
    assert 'dragoman_requests_total{dialect="llamacpp",outcome="finished",path="/completion"}' in text
    assert 'dragoman_engine_completion_tokens_total{model="fake"}' in text
