"""The official OpenAI SDK on the Batch API of a whole server."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from openai.types import Batch

from dragoman.config import StoreSettings
from tests.support.running import RunningServer, running
from tests.wire.clients import openai_client
from tests.wire.conftest import SCRIPT, settings

CHAT = "/v1/chat/completions"
ENDED = {"completed", "failed", "expired", "cancelled"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    config = dataclasses.replace(
        settings(engine="fake", script=SCRIPT, max_lanes=4),
        state_dir=tmp_path_factory.mktemp("state"),
        store=StoreSettings(batch_rows=50),
    )
    with running(config) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(server.url) as client:
        yield client


def chat(text: str, **extra: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": text}], **extra}


def row(custom_id: str, body: dict[str, Any], url: str = CHAT, **extra: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body, **extra}


def start(client: openai.OpenAI, rows: list[Any], endpoint: str = CHAT, **extra: Any) -> Batch:
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rows]
    file = client.files.create(file=("rows.jsonl", "\n".join(lines).encode()), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **extra)


def until(client: openai.OpenAI, batch: Batch, reached: Callable[[Batch], bool]) -> Batch:
    end = time.monotonic() + 30
    while not reached(batch):
        assert time.monotonic() < end, batch
        time.sleep(0.02)
        batch = client.batches.retrieve(batch.id)
    return batch


def finished(client: openai.OpenAI, batch: Batch) -> Batch:
    return until(client, batch, lambda batch: batch.status in ENDED)


def lines(client: openai.OpenAI, file_id: str | None) -> dict[str | None, Any]:
    assert file_id is not None
    with client.files.with_streaming_response.content(file_id) as answer:
        return {read["custom_id"]: read for read in map(json.loads, answer.iter_lines())}


def test_a_whole_batch(client: openai.OpenAI) -> None:
    rows = [row(f"r{n}", chat("WORDS" if n % 2 else "EMOJI")) for n in range(9)]
    made = start(client, rows, metadata={"why": "test"})
    assert (made.object, made.endpoint, made.completion_window) == ("batch", CHAT, "24h")
    assert (made.status, made.metadata) == ("validating", {"why": "test"})
    assert made.expires_at == made.created_at + 86400
    done = finished(client, made)
    assert (done.status, done.errors, done.error_file_id) == ("completed", None, None)
    assert done.request_counts is not None
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (9, 9, 0)
    assert made.created_at <= done.in_progress_at <= done.finalizing_at <= done.completed_at
    file = client.files.retrieve(done.output_file_id)
    assert (file.purpose, file.filename) == ("batch_output", f"{done.id}_output.jsonl")
    output = lines(client, done.output_file_id)
    assert list(output) == [f"r{n}" for n in range(9)]
    answer = output["r1"]["response"]
    assert (answer["status_code"], output["r1"]["error"]) == (200, None)
    assert answer["request_id"]
    completion = openai.types.chat.ChatCompletion.model_validate(answer["body"])
    assert completion.choices[0].message.content == "one two three four five"
    used = [read["response"]["body"]["usage"] for read in output.values()]
    assert done.usage.output_tokens == sum(usage["completion_tokens"] for usage in used)
    assert done.usage.total_tokens == sum(usage["total_tokens"] for usage in used)


@pytest.mark.parametrize(
    ("endpoint", "body", "found"),
    [
        ("/v1/completions", {"model": "x", "prompt": "WORDS"}, lambda body: body["choices"][0]["text"]),
        ("/v1/responses", {"model": "x", "input": "WORDS"}, lambda body: body["output"][-1]["content"][0]["text"]),
    ],
)
def test_other_endpoints(client: openai.OpenAI, endpoint: str, body: dict, found: Callable[[Any], str]) -> None:
    done = finished(client, start(client, [row("a", body, endpoint)], endpoint))
    assert done.status == "completed"
    assert found(lines(client, done.output_file_id)["a"]["response"]["body"]) == "one two three four five"


def test_embeddings_that_are_refused_are_errors(client: openai.OpenAI) -> None:
    url = "/v1/embeddings"
    done = finished(client, start(client, [row("a", {"model": "x", "input": "y"}, url)], url))
    assert (done.status, done.output_file_id, done.request_counts.failed) == ("completed", None, 1)
    failed = lines(client, done.error_file_id)["a"]
    assert failed["response"]["status_code"] == 501
    assert failed["response"]["body"]["error"]["code"] == "not_supported"


def test_malformed_rows_go_to_the_error_file(client: openai.OpenAI) -> None:
    rows = [
        row("good", chat("WORDS")),
        row("good", chat("WORDS")),
        row("url", chat("WORDS"), "/v1/completions"),
        row("method", chat("WORDS"), method="GET"),
        row("stream", chat("WORDS", stream=True)),
        row("nobody", "text"),
        {"custom_id": "bare"},
        {"method": "POST", "url": CHAT, "body": {}},
        row("", chat("x")),
        row(7, chat("x")),
        "{",
        "[1]",
        "",
        '{"custom_id": "\\ud800", "method": "POST", "url": "/v1/chat/completions", "body": {}}',
        row("refused", chat("WORDS", temperature="hot")),
    ]
    done = finished(client, start(client, rows))
    assert (done.status, done.errors) == ("completed", None)
    counts = done.request_counts
    assert (counts.total, counts.completed, counts.failed) == (14, 1, 13)
    assert list(lines(client, done.output_file_id)) == ["good"]
    with client.files.with_streaming_response.content(done.error_file_id) as answer:
        errors = [json.loads(line) for line in answer.iter_lines()]
    refused = errors.pop()
    assert (refused["custom_id"], refused["error"]) == ("refused", None)
    assert refused["response"]["status_code"] == 400
    assert refused["response"]["body"]["error"]["param"] == "temperature"
    assert [error["response"] for error in errors] == [None] * 12
    assert [error["error"]["code"] for error in errors] == [
        "duplicate_custom_id",
        "invalid_url",
        "invalid_method",
        "unsupported_parameter",
        "invalid_body",
        "missing_required_parameter",
        "missing_required_parameter",
        "invalid_custom_id",
        "invalid_custom_id",
        "invalid_json_line",
        "invalid_json_line",
        "invalid_json_line",
    ]


@pytest.mark.parametrize(
    ("rows", "code", "line"),
    [
        ([" ", ""], "empty_file", None),
        ([row(str(n), chat("x")) for n in range(51)], "too_many_tasks", None),
        (["nonsense", "{}"], "invalid_json_line", 1),
        (["", row("a", chat("x"), "/v1/embeddings")], "invalid_url", 2),
    ],
)
def test_files_that_cannot_be_run_fail(client: openai.OpenAI, rows: list, code: str, line: int | None) -> None:
    done = finished(client, start(client, rows))
    assert (done.status, done.output_file_id, done.error_file_id) == ("failed", None, None)
    assert done.failed_at is not None
    assert done.errors is not None
    assert done.errors.data is not None
    assert (done.errors.data[0].code, done.errors.data[0].line) == (code, line)


def test_cancel_keeps_what_is_done(client: openai.OpenAI, server: RunningServer) -> None:
    rows = [row("first", chat("WORDS")), *(row(f"slow{n}", chat("FOREVER")) for n in range(8))]
    running = until(client, start(client, rows), lambda batch: batch.request_counts.completed == 1)
    assert running.status == "in_progress"
    cancelling = client.batches.cancel(running.id)
    assert cancelling.status == "cancelling"
    assert cancelling.cancelling_at is not None
    done = finished(client, cancelling)
    assert (done.status, done.request_counts.completed, done.request_counts.total) == ("cancelled", 1, 9)
    assert done.cancelled_at is not None
    assert list(lines(client, done.output_file_id)) == ["first"]
    assert {read["error"]["code"] for read in lines(client, done.error_file_id).values()} == {"batch_cancelled"}
    assert server.stats().running == 0
    with pytest.raises(openai.BadRequestError, match="cannot be cancelled"):
        client.batches.cancel(done.id)


def test_interactive_requests_come_first(client: openai.OpenAI, server: RunningServer) -> None:
    """Endless rows hold every lane; requests that come are answered all the same, all the time."""
    batch = start(client, [row(f"slow{n}", chat("FOREVER")) for n in range(20)])
    until(client, batch, lambda _: server.stats().running == 4)
    assert server.stats().waiting == 0
    for _ in range(3):
        answer = client.chat.completions.create(**chat("WORDS"))
        assert answer.choices[0].message.content == "one two three four five"
    assert client.batches.retrieve(batch.id).request_counts.failed == 0
    finished(client, client.batches.cancel(batch.id))
    assert server.stats().running == 0


def test_pages(client: openai.OpenAI) -> None:
    ids = [finished(client, start(client, [row("a", chat("WORDS"))])).id for _ in range(3)]
    listed = [batch.id for batch in client.batches.list()]
    assert listed[:3] == ids[::-1]
    assert [batch.id for batch in client.batches.list(limit=1)] == listed
    page = client.batches.list(limit=2)
    assert (len(page.data), page.has_more) == (2, True)
    with pytest.raises(openai.BadRequestError) as caught:
        client.batches.list(after="batch_none")
    assert caught.value.param == "after"
    with pytest.raises(openai.BadRequestError) as caught:
        client.batches.list(limit=101)
    assert caught.value.param == "limit"


@pytest.mark.parametrize(
    ("change", "kind", "param"),
    [
        ({"endpoint": "/v1/moderations"}, openai.BadRequestError, "endpoint"),
        ({"completion_window": "1h"}, openai.BadRequestError, "completion_window"),
        ({"input_file_id": "file-none"}, openai.NotFoundError, "input_file_id"),
        ({"metadata": {"x" * 65: "y"}}, openai.BadRequestError, "metadata"),
        ({"metadata": {str(n): "y" for n in range(17)}}, openai.BadRequestError, "metadata"),
        ({"metadata": {"k": "y" * 513}}, openai.BadRequestError, "metadata.k"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
            openai.BadRequestError,
            "output_expires_after.seconds",
        ),
    ],
)
def test_bad_batches(client: openai.OpenAI, change: dict, kind: type[openai.APIStatusError], param: str) -> None:
    file = client.files.create(file=("rows.jsonl", b"{}"), purpose="batch")
    asked = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h", **change}
    with pytest.raises(kind) as caught:
        client.batches.create(**asked)
    assert caught.value.param == param


def test_other_purposes_and_unknown_ids(client: openai.OpenAI) -> None:
    file = client.files.create(file=("rows.jsonl", b"{}"), purpose="user_data")
    with pytest.raises(openai.BadRequestError, match="purpose"):
        client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    for call in (client.batches.retrieve, client.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            call("batch_none")


def test_output_expiry(client: openai.OpenAI) -> None:
    policy = {"anchor": "created_at", "seconds": 7200}
    done = finished(client, start(client, [row("a", chat("WORDS"))], output_expires_after=policy))
    file = client.files.retrieve(done.output_file_id)
    assert file.expires_at == file.created_at + 7200
