"""Routes of message batches -> core requests. Knows no store and runs nothing."""

from __future__ import annotations

import msgspec

from dragoman.core.batches import (
    BatchCancel,
    BatchCreate,
    BatchDelete,
    BatchList,
    BatchLookup,
    BatchResults,
    NewRow,
)
from dragoman.core.errors import InvalidField
from dragoman.dialects.anthropic.batch_schema import BatchBody, BatchBodyShape, BatchEntry
from dragoman.dialects.anthropic.batch_write import BatchWriter, write_deletion, write_results
from dragoman.dialects.anthropic.paging import read_page
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields

SURFACE = "anthropic"
PREFIX = "msgbatch_"
MESSAGES = "/v1/messages"
MAX_ROWS, MAX_ID = 100_000, 64
"""Anthropic's own limits."""


class _Streams(msgspec.Struct):
    stream: object = None


def read_create(wire: WireRequest) -> SmallCall:
    """POST /v1/messages/batches. What is wrong inside a request is told in its result, as at Anthropic."""
    value = decode_object(wire.body)
    body = _body(wire.body, value)
    if not 1 <= len(body.requests) <= MAX_ROWS:
        raise InvalidField(f"requests: a batch has 1 to {MAX_ROWS} requests.", field="requests")
    _check_ids(body.requests)
    rows = tuple(_row(entry) for entry in body.requests)
    request = BatchCreate(surface=SURFACE, id_prefix=PREFIX, endpoint=MESSAGES, rows=rows)
    return SmallCall(request=request, write=_writer(wire).batch, ignored=unknown_fields(value, BatchBody))


def read_list(wire: WireRequest) -> SmallCall:
    """GET /v1/messages/batches."""
    page = read_page(wire.query)
    request = BatchList(surface=SURFACE, limit=page.limit, after=page.after_id, before=page.before_id)
    return SmallCall(request=request, write=_writer(wire).page)


def read_lookup(wire: WireRequest) -> SmallCall:
    """GET /v1/messages/batches/{id}."""
    return SmallCall(request=BatchLookup(wire.params["id"], SURFACE), write=_writer(wire).batch)


def read_results(wire: WireRequest) -> SmallCall:
    """GET /v1/messages/batches/{id}/results."""
    return SmallCall(request=BatchResults(wire.params["id"], SURFACE), write=write_results)


def read_cancel(wire: WireRequest) -> SmallCall:
    """POST /v1/messages/batches/{id}/cancel."""
    return SmallCall(request=BatchCancel(wire.params["id"], SURFACE), write=_writer(wire).batch)


def read_delete(wire: WireRequest) -> SmallCall:
    """DELETE /v1/messages/batches/{id}."""
    return SmallCall(request=BatchDelete(wire.params["id"], SURFACE), write=write_deletion)


def _writer(wire: WireRequest) -> BatchWriter:
    """Results are fetched from where the batch was asked for."""
    host = wire.headers.get("host", "")
    scheme = "https" if wire.headers.get("x-forwarded-proto") == "https" else "http"
    return BatchWriter(f"{scheme}://{host}" if host else "")


def _body(raw: bytes, value: dict[str, object]) -> BatchBody:
    """The bodies of messages stay as they were sent."""
    try:
        return msgspec.json.decode(raw, type=BatchBody)
    except msgspec.ValidationError:
        convert(value, BatchBodyShape)
        raise


def _check_ids(entries: list[BatchEntry]) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        at = f"requests[{index}].custom_id"
        if not 0 < len(entry.custom_id) <= MAX_ID:
            raise InvalidField(f"{at}: it must have 1 to {MAX_ID} characters.", field=at)
        if entry.custom_id in seen:
            raise InvalidField(f"{at}: '{entry.custom_id}' was used before.", field=at)
        seen.add(entry.custom_id)


def _row(entry: BatchEntry) -> NewRow:
    params = bytes(entry.params)
    code = message = ""
    try:
        if msgspec.json.decode(params, type=_Streams).stream not in (None, False):
            code, message = "invalid_value", "stream: messages of a batch cannot be streamed."
    except msgspec.ValidationError:
        code, message = "invalid_value", "params: an object is required."
    return NewRow(custom_id=entry.custom_id, path=MESSAGES, body=params, code=code, message=message)
