"""Message batches as they are read and written."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from anthropic.types.messages import DeletedMessageBatch, MessageBatch, MessageBatchIndividualResponse

from dragoman.core.batches import (
    BatchCancel,
    BatchCreate,
    BatchDelete,
    BatchDeleted,
    BatchList,
    BatchLookup,
    BatchPage,
    BatchRecord,
    BatchResults,
    BatchRow,
    BatchRows,
)
from dragoman.core.errors import InvalidRequest
from dragoman.dialects.anthropic import batch_read
from dragoman.dialects.base import ByteStream, WireRequest
from tests.dialects.wire import post

PATH = "/v1/messages/batches"
HEADERS = {"host": "models.local:8080"}
RUNNING = BatchRecord(
    id="msgbatch_1", surface="anthropic", status="in_progress", created=1_800_000_000, expires=1_800_086_400, total=5
)
ENDED = msgspec.structs.replace(
    RUNNING,
    status="cancelled",
    times={"in_progress": 1_800_000_000, "cancelling": 1_800_000_010, "cancelled": 1_800_000_020},
    completed=1,
    failed=2,
    cancelled=1,
    expired=1,
)


def params(**more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **more}


def created(*requests: Any) -> BatchCreate:
    call = batch_read.read_create(post(PATH, {"requests": list(requests)}, HEADERS))
    assert isinstance(call.request, BatchCreate)
    return call.request


def wire(**query: str) -> WireRequest:
    return WireRequest(method="GET", path=PATH, query=query, params={"id": "msgbatch_1"}, headers=HEADERS)


def test_rows_are_messages_to_be() -> None:
    found = created({"custom_id": "a", "params": params()}, {"custom_id": "b", "params": params(stream=False)})
    assert (found.surface, found.id_prefix, found.endpoint, found.input_file) == (
        "anthropic",
        "msgbatch_",
        "/v1/messages",
        None,
    )
    assert [(row.custom_id, row.method, row.path, row.code) for row in found.rows] == [
        ("a", "POST", "/v1/messages", ""),
        ("b", "POST", "/v1/messages", ""),
    ]
    assert json.loads(found.rows[0].body) == params()


def test_a_body_is_kept_as_it_was_sent() -> None:
    raw = b'{"requests":[{"custom_id":"a","params":{"n":12345678901234567890123,"x":1.10}}]}'
    call = batch_read.read_create(post(PATH, raw, HEADERS))
    assert isinstance(call.request, BatchCreate)
    assert call.request.rows[0].body == b'{"n":12345678901234567890123,"x":1.10}'


@pytest.mark.parametrize("wrong", [params(stream=True), "text", [1], None])
def test_what_cannot_run_is_told_in_its_result(wrong: Any) -> None:
    good, bad = created({"custom_id": "a", "params": params()}, {"custom_id": "b", "params": wrong}).rows
    assert (good.code, bad.code) == ("", "invalid_value")
    assert "stream" in bad.message or "object" in bad.message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": "x"}, "requests"),
        ({"requests": [{"params": params()}]}, "requests[0].custom_id"),
        ({"requests": [{"custom_id": "a"}]}, "requests[0].params"),
        ({"requests": [{"custom_id": "", "params": {}}]}, "requests[0].custom_id"),
        ({"requests": [{"custom_id": "a" * 65, "params": {}}]}, "requests[0].custom_id"),
        ({"requests": [{"custom_id": "a", "params": {}}] * 2}, "requests[1].custom_id"),
    ],
)
def test_refusals(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        batch_read.read_create(post(PATH, body, HEADERS))
    assert caught.value.field == field


def test_requests() -> None:
    assert batch_read.read_list(wire(limit="3", after_id="x")).request == BatchList(
        surface="anthropic", limit=3, after="x"
    )
    assert batch_read.read_list(wire(before_id="x")).request == BatchList(surface="anthropic", limit=20, before="x")
    for read, kind in (
        (batch_read.read_lookup, BatchLookup),
        (batch_read.read_cancel, BatchCancel),
        (batch_read.read_delete, BatchDelete),
        (batch_read.read_results, BatchResults),
    ):
        assert read(wire()).request == kind("msgbatch_1", "anthropic")


def shown(record: BatchRecord, headers: dict[str, str] | None = None) -> MessageBatch:
    request = msgspec.structs.replace(wire(), headers=HEADERS if headers is None else headers)
    body = batch_read.read_lookup(request).write(record)
    assert isinstance(body, bytes)
    return MessageBatch.model_validate_json(body)


def test_a_running_batch() -> None:
    batch = shown(msgspec.structs.replace(RUNNING, completed=2))
    assert (batch.id, batch.processing_status, batch.results_url) == ("msgbatch_1", "in_progress", None)
    assert batch.request_counts.to_dict() == {
        "processing": 3,
        "succeeded": 2,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }
    assert (batch.ended_at, batch.cancel_initiated_at) == (None, None)
    assert (batch.expires_at - batch.created_at).days == 1
    assert shown(msgspec.structs.replace(RUNNING, status="cancelling")).processing_status == "canceling"


def test_an_ended_batch() -> None:
    batch = shown(ENDED)
    assert batch.processing_status == "ended"
    assert batch.results_url == "http://models.local:8080/v1/messages/batches/msgbatch_1/results"
    assert batch.request_counts.to_dict() == {
        "processing": 0,
        "succeeded": 1,
        "errored": 2,
        "canceled": 1,
        "expired": 1,
    }
    assert batch.ended_at is not None
    assert batch.cancel_initiated_at is not None
    assert (batch.ended_at - batch.cancel_initiated_at).seconds == 10
    secure = shown(ENDED, {**HEADERS, "x-forwarded-proto": "https"})
    assert (secure.results_url or "").startswith("https://models.local")
    assert shown(ENDED, {}).results_url == "/v1/messages/batches/msgbatch_1/results"


def test_pages_and_deletion() -> None:
    body = batch_read.read_list(wire()).write(BatchPage((ENDED, RUNNING), True))
    assert isinstance(body, bytes)
    page = json.loads(body)
    assert (page["first_id"], page["last_id"], page["has_more"], len(page["data"])) == (
        "msgbatch_1",
        "msgbatch_1",
        True,
        2,
    )
    body = batch_read.read_delete(wire()).write(BatchDeleted("msgbatch_1"))
    assert isinstance(body, bytes)
    assert DeletedMessageBatch.model_validate_json(body).type == "message_batch_deleted"


def row(n: int, outcome: Any, **more: Any) -> BatchRow:
    known = {"method": "POST", "path": "/v1/messages", "body": b"{}"}
    return BatchRow(batch="msgbatch_1", n=n, id=f"r{n}", custom_id=f"row {n}", outcome=outcome, **known, **more)


@pytest.mark.anyio
async def test_results() -> None:
    message = (
        b'{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[],"stop_reason":"end_turn",'
        b'"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}'
    )
    refusal = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"},"request_id":"req_1"}'
    closed: list[bool] = []

    async def pages() -> AsyncGenerator[tuple[BatchRow, ...]]:
        try:
            yield row(0, "succeeded", result=message, status=200), row(1, "failed", result=refusal, status=400)
            yield row(2, "invalid", message="stream: no."), row(3, "cancelled"), row(4, "expired")
        finally:
            closed.append(True)

    stream = batch_read.read_results(wire()).write(BatchRows(ENDED, pages()))
    assert isinstance(stream, ByteStream)
    assert stream.content_type == "application/x-jsonl"
    lines = b"".join([piece async for piece in stream.pieces]).splitlines()
    found = [MessageBatchIndividualResponse.model_validate_json(line) for line in lines]
    assert [(one.custom_id, one.result.type) for one in found] == [
        ("row 0", "succeeded"),
        ("row 1", "errored"),
        ("row 2", "errored"),
        ("row 3", "canceled"),
        ("row 4", "expired"),
    ]
    errors = [one.result.error for one in found if one.result.type == "errored"]
    assert [(error.type, error.error.type, error.error.message) for error in errors] == [
        ("error", "invalid_request_error", "no"),
        ("error", "invalid_request_error", "stream: no."),
    ]
    assert closed == [True]
