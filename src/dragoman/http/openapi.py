"""The OpenAPI 3.1 document of everything that is mounted, made from the endpoint tables. Knows no wire's words."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import UnionType
from typing import Any, cast

import msgspec

from dragoman import __version__
from dragoman.core.errors import (
    AuthenticationFailed,
    ContractBroken,
    DragomanError,
    EngineFailure,
    Forbidden,
    HeadersTooLarge,
    InvalidRequest,
    MisdirectedRequest,
    NotFound,
    NotSupported,
    Overloaded,
    PayloadTooLarge,
    RequestTimeout,
    Unavailable,
)
from dragoman.dialects.base import Dialect, Endpoint, StaticCall

Row = tuple[str, Dialect, Endpoint]
Json = dict[str, Any]

# Not empty: msgspec takes an empty schema for "I do not know this type".
_ANY_JSON: Json = {"description": "Any JSON value."}
_RETRY_AFTER: Json = {
    "Retry-After": {"description": "Seconds to wait before another try.", "schema": {"type": "integer"}}
}
_COMPONENTS = "#/components/schemas/"
_FOLDER = re.compile(r"^\w+\.dialects\.(\w+)\.(?:\w+\.)*")
_PARAM = re.compile(r"\{(\w+)(:path)?\}")
_ANY_ROUTE: tuple[type[DragomanError], ...] = (
    InvalidRequest, Forbidden, NotFound, RequestTimeout, PayloadTooLarge, MisdirectedRequest, HeadersTooLarge,
    Overloaded, EngineFailure, NotSupported, Unavailable,
)  # fmt: skip
_SSE = "text/event-stream"
Told = type[Any] | UnionType


def openapi_endpoint(rows: Callable[[], Iterator[Row]]) -> Endpoint:
    """The row that serves the document of `rows()`; made once, when first asked for."""

    @functools.cache
    def body() -> bytes:
        return msgspec.json.encode(document(list(rows())))

    return Endpoint(
        method="GET",
        path="/openapi.json",
        summary="This document: every route of this server",
        read=lambda _: StaticCall(body=body()),
    )


def document(rows: list[Row]) -> Json:
    """The document. Every row is one operation with a unique operationId."""
    schemas, components = _schemas([kind for _, dialect, endpoint in rows for kind in _types(dialect, endpoint)])
    paths: dict[str, Json] = {}
    for method, dialect, endpoint in rows:
        item = paths.setdefault(_PARAM.sub(r"{\1}", endpoint.path), {})
        item[method.lower()] = _operation(method, dialect, endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dragoman", "version": __version__},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _types(dialect: Dialect, endpoint: Endpoint) -> Iterator[Told]:
    told = (endpoint.body, endpoint.form, endpoint.answer, endpoint.frame, dialect.error_body)
    return (kind for kind in told if kind is not None)


def _operation(method: str, dialect: Dialect, endpoint: Endpoint, schemas: dict[Any, Json]) -> Json:
    operation: Json = {
        "operationId": f"{dialect.name}_{method.lower()}_{re.sub('[^A-Za-z0-9]+', '_', endpoint.path).strip('_')}",
        "summary": endpoint.summary,
        "tags": [dialect.name],
        "security": [] if endpoint.public else [{"bearer": []}, {"x-api-key": []}, {}],
        "responses": _responses(method, dialect, endpoint, schemas),
    }
    parameters = [_parameter(*found.groups()) for found in _PARAM.finditer(endpoint.path)]
    parameters += _query(endpoint)
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = {"application/json": {"schema": schemas[endpoint.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif endpoint.form is not None:
        content = {"multipart/form-data": {"schema": schemas[endpoint.form]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif endpoint.upload:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    return operation


def _parameter(name: str, many: str | None) -> Json:
    parameter: Json = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    if many:
        parameter["description"] = "May contain slashes."
    return parameter


def _query(endpoint: Endpoint) -> list[Json]:
    if endpoint.query is None:
        return []
    # Named by the wire, so that `expires_after[seconds]` and its kind keep their brackets.
    shape = msgspec.json.schema(endpoint.query)["$defs"][endpoint.query.__name__]
    needed: list[str] = shape["required"]
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in shape["properties"].items()
    ]


def _responses(method: str, dialect: Dialect, endpoint: Endpoint, schemas: dict[Any, Json]) -> Json:
    kinds = [*_ANY_ROUTE, *endpoint.errors]
    if not endpoint.public:
        kinds.append(AuthenticationFailed)
    if _streams(endpoint):
        kinds.append(ContractBroken)
    responses: Json = {str(endpoint.status): _success(method, dialect, endpoint, schemas)}
    for kind in sorted(kinds, key=lambda kind: kind.status):
        error = kind((kind.__doc__ or kind.__name__).strip())
        reply = dialect.error(error, f"{dialect.request_id_prefix}example")
        described: Json = {"description": error.message}
        if method != "HEAD":
            media = {**_media(dialect.error_body, schemas), "example": _example(reply.body)}
            described["content"] = {dialect.content_type: media}
        if issubclass(kind, Overloaded | Unavailable):
            described["headers"] = _RETRY_AFTER
        responses.setdefault(str(reply.status), described)
    return responses


def _success(method: str, dialect: Dialect, endpoint: Endpoint, schemas: dict[Any, Json]) -> Json:
    good: Json = {"description": "The answer."}
    if method == "HEAD" or endpoint.status == HTTPStatus.NO_CONTENT:
        return good
    good["content"] = {endpoint.content_type or dialect.content_type: _media(endpoint.answer, schemas)}
    if _streams(endpoint):
        framed = _media(endpoint.frame, schemas)
        if framed and dialect.stream_type == _SSE:
            # A schema here would describe the whole text; each `data:` line holds one object of it.
            framed = {"schema": {"type": "string"}, "x-event-data": framed["schema"]}
        good["content"][dialect.stream_type] = framed
    return good


def _streams(endpoint: Endpoint) -> bool:
    """Whether it can be asked for a stream: a field says so, and where the reply is told, its frames are too."""
    asked = any("stream" in getattr(told, "__struct_fields__", ()) for told in (endpoint.body, endpoint.query))
    return asked and (endpoint.frame is not None or endpoint.answer is None)


def _media(kind: Told | None, schemas: dict[Any, Json]) -> Json:
    return {} if kind is None else {"schema": schemas[kind]}


def _example(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="replace")


def _schemas(types: list[Told]) -> tuple[dict[Any, Json], Json]:
    """A schema for each body type, and the components they refer to. What msgspec cannot describe is any JSON."""
    wanted = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(
        wanted, schema_hook=lambda _: _ANY_JSON, ref_template=f"{_COMPONENTS}{{name}}"
    )
    names = _shorter(list(components))
    renamed = {names[name]: _renamed(schema, names) for name, schema in components.items()}
    return {kind: _renamed(schema, names) for kind, schema in zip(wanted, schemas, strict=True)}, renamed


def _shorter(names: list[str]) -> dict[str, str]:
    """Types that share a name are told apart by their whole modules, of which a dialect's folder says enough."""
    found = {name: _FOLDER.sub(r"\1.", name) for name in names}
    often = Counter(found.values())
    return {name: short if often[short] == 1 else name for name, short in found.items()}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """`value` with its references to components by their new names."""
    if isinstance(value, dict):
        return {key: _renamed(inner, names) for key, inner in cast("Json", value).items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in cast("list[Any]", value)]
    if isinstance(value, str) and value.startswith(_COMPONENTS):
        return f"{_COMPONENTS}{names[value.removeprefix(_COMPONENTS)]}"
    return value
