from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from dragoman.dialects.base import StaticCall, WireRequest
from dragoman.http.app import create_app
from dragoman.http.docs_page import docs_endpoint
from dragoman.http.options import HttpOptions
from tests.http.stub import ALPHA, BETA, EchoBody, StubGateway, ask, make_app, row

pytestmark = pytest.mark.anyio


class Opaque:
    pass


class Odd(Struct):
    thing: Opaque


async def document() -> dict[str, Any]:
    answer = await ask(make_app(StubGateway()), "GET", "/openapi.json")
    assert answer.status == 200
    return answer.json


def operations(doc: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, operation) for path, item in doc["paths"].items() for method, operation in item.items()]


async def test_every_mounted_route_is_listed() -> None:
    listed = {(method.upper(), path) for path, method, _ in operations(await document())}
    rows = {(endpoint.method, endpoint.path) for dialect in (ALPHA, BETA) for endpoint in dialect.endpoints}
    rows |= {("GET", "/openapi.json"), ("GET", "/docs")}
    rows |= {("HEAD", path) for method, path in rows if method == "GET"}
    assert listed == {(method, path.replace(":path", "")) for method, path in rows}


async def test_operation_ids_are_unique_and_errors_described() -> None:
    found = operations(await document())
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(ids) == len(set(ids))
    for path, method, operation in found:
        assert {"200", "400", "404", "413", "429", "500", "503"} <= set(operation["responses"])
        assert ("401" in operation["responses"]) == (path not in ("/health", "/docs"))
        if method != "head":
            content = operation["responses"]["429"]["content"]
            assert next(media["example"] for media in content.values())[operation["tags"][0]]["code"] == "overloaded"


async def test_bodies_refer_to_schemas_that_exist() -> None:
    doc = await document()
    schemas = doc["components"]["schemas"]
    body = doc["paths"]["/v1/echo"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/EchoBody"}
    assert schemas["EchoBody"]["properties"]["text"] == {"type": "string"}
    assert schemas["NestedBody"]["properties"]["inner"] == {"$ref": "#/components/schemas/Inner"}
    assert set(doc["paths"]["/v1/echo"]["post"]["responses"]["200"]["content"]) == {
        "application/json",
        "text/event-stream",
    }
    assert "application/x-ndjson" in doc["paths"]["/api/chat"]["post"]["responses"]["200"]["content"]


async def test_path_parameters() -> None:
    doc = await document()
    for path, _, operation in operations(doc):
        names = [parameter["name"] for parameter in operation.get("parameters", ())]
        assert names == [part[1:-1] for part in path.split("/") if part.startswith("{")]
    assert "slashes" in doc["paths"]["/v1/files/{name}"]["get"]["parameters"][0]["description"]


async def test_structs_of_one_name_stay_apart_and_odd_types_are_any_json() -> None:
    def twin() -> type[Any]:
        class EchoBody(Struct):
            other: int

        return EchoBody

    rows = (row("POST", "/api/twin", body=twin()), row("POST", "/api/odd", body=Odd))
    app = create_app(StubGateway(), (ALPHA, replace(BETA, endpoints=rows)), HttpOptions())
    doc = (await ask(app, "GET", "/openapi.json")).json
    refs = [
        doc["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for path in ("/v1/echo", "/api/twin")
    ]
    properties = [set(doc["components"]["schemas"][name]["properties"]) for name in refs]
    assert properties == [set(EchoBody.__struct_fields__), {"other"}]
    assert doc["components"]["schemas"]["Odd"]["properties"]["thing"] == {"description": "Any JSON value."}


async def test_replies_and_errors_have_schemas() -> None:
    class Told(Struct):
        text: str

    class Piece(Struct):
        delta: str

    class Wrong(Struct):
        error: dict[str, str]

    told = replace(row("POST", "/api/told", body=EchoBody), answer=Told, frame=Piece)
    dialect = replace(ALPHA, endpoints=(told,), error_body=Wrong)
    app = create_app(StubGateway(), (dialect,), HttpOptions())
    doc = (await ask(app, "GET", "/openapi.json")).json
    replies = doc["paths"]["/api/told"]["post"]["responses"]
    good = replies["200"]["content"]
    assert good["application/json"]["schema"] == {"$ref": "#/components/schemas/Told"}
    assert good["text/event-stream"]["x-event-data"] == {"$ref": "#/components/schemas/Piece"}
    assert replies["429"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Wrong"}
    assert {"Told", "Piece", "Wrong"} <= set(doc["components"]["schemas"])
    assert {status for status, reply in replies.items() if "Retry-After" in reply.get("headers", {})} == {"429", "503"}


async def test_the_page_asks_nobody_else() -> None:
    row = docs_endpoint()
    call = row.read(WireRequest(method="GET", path=row.path))
    assert isinstance(call, StaticCall)
    assert (row.public, call.content_type) == (True, "text/html; charset=utf-8")
    page = call.body.decode()
    assert "./openapi.json" in page
    assert "://" not in page
