"""The OpenAPI document of the whole server, and the page that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion

from tests.support.running import RunningServer

GENERATION = ("/v1/chat/completions", "/v1/completions")


@pytest.fixture
def client(fake: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=fake.url, timeout=30) as client:
        yield client


@pytest.fixture
def document(client: httpx2.Client) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = set(references(document))
    assert found
    assert {name.removeprefix("#/components/schemas/") for name in found} <= set(document["components"]["schemas"])


def test_the_generation_wires_are_described_whole(document: dict[str, Any]) -> None:
    for path in GENERATION:
        operation = document["paths"][path]["post"]
        good = operation["responses"]["200"]["content"]
        assert good["application/json"]["schema"]["$ref"]
        assert good["text/event-stream"]["x-event-data"]["$ref"]
        for status, reply in operation["responses"].items():
            if status != "200":
                assert reply["content"]["application/json"]["schema"]["$ref"].endswith("ErrorEnvelope")
        for status in ("429", "503"):
            assert "Retry-After" in operation["responses"][status]["headers"]


def test_fields_of_the_sdk_are_in_the_schemas(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for path, name in zip(GENERATION, (ChatCompletion, Completion), strict=True):
        ref = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        needed = {field for field, info in name.model_fields.items() if info.is_required()}
        assert needed <= set(schemas[ref.rpartition("/")[2]]["properties"])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", {"messages": []}, 400),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "ROWFAIL"}]}, 500),
        ("/v1/completions", {"prompt": "x", "suffix": "y"}, 400),
        ("/v1/embeddings", {"input": "x"}, 501),
        ("/v1/chat/completions/none", {}, 404),
    ],
)
def test_statuses_are_documented(
    client: httpx2.Client, document: dict[str, Any], path: str, body: Any, status: int
) -> None:
    reply = client.post(path, json=body)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    named = path if path in document["paths"] else "/v1/chat/completions/{completion_id}"
    assert str(status) in document["paths"][named]["post"]["responses"]


def test_the_page(client: httpx2.Client) -> None:
    reply = client.get("/docs")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "./openapi.json" in reply.text


def test_the_document_is_json_of_this_version(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    assert json.dumps(document)
