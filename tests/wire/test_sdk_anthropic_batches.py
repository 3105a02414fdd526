"""The official Anthropic SDK on the message batches of a whole server."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from dragoman.config import StoreSettings
from tests.support.running import RunningServer, running
from tests.wire.clients import anthropic_client, openai_client
from tests.wire.conftest import SCRIPT, settings


def config(state: Path):
    return dataclasses.replace(
        settings(engine="fake", script=SCRIPT, max_lanes=4), state_dir=state, store=StoreSettings(batch_rows=50)
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(config(tmp_path_factory.mktemp("state"))) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic_client(server.url) as client:
        yield client


def row(custom_id: str, text: str, **more: Any) -> dict[str, Any]:
    params = {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}
    return {"custom_id": custom_id, "params": params}


def ended(client: anthropic.Anthropic, batch: MessageBatch) -> MessageBatch:
    end = time.monotonic() + 30
    while batch.processing_status != "ended":
        assert time.monotonic() < end, batch
        time.sleep(0.02)
        batch = client.messages.batches.retrieve(batch.id)
    return batch


def results(client: anthropic.Anthropic, batch: MessageBatch) -> dict[str, MessageBatchIndividualResponse]:
    return {result.custom_id: result for result in client.messages.batches.results(batch.id)}


def test_a_whole_batch(client: anthropic.Anthropic) -> None:
    rows = [row(f"r{n}", "WORDS" if n % 2 else "EMOJI") for n in range(5)]
    rows += [row("bad", "WORDS", max_tokens=0), row("fails", "ROWFAIL"), row("streams", "WORDS", stream=True)]
    made = client.messages.batches.create(requests=rows)
    assert made.id.startswith("msgbatch_")
    assert (made.type, made.ended_at, made.results_url) == ("message_batch", None, None)
    done = ended(client, made)
    counts = done.request_counts
    assert (counts.processing, counts.succeeded, counts.errored, counts.canceled, counts.expired) == (0, 5, 3, 0, 0)
    assert done.created_at == made.created_at <= done.ended_at
    found = results(client, done)
    assert list(found) == ["r0", "r1", "r2", "r3", "r4", "bad", "fails", "streams"]
    assert found["r1"].result.type == "succeeded"
    assert found["r1"].result.message.content[0].text == "one two three four five"
    errors = {name: found[name].result.error for name in ("bad", "fails", "streams")}
    assert {name: (error.type, error.error.type) for name, error in errors.items()} == {
        "bad": ("error", "invalid_request_error"),
        "fails": ("error", "api_error"),
        "streams": ("error", "invalid_request_error"),
    }
    assert "max_tokens" in errors["bad"].error.message
    assert errors["bad"].request_id


def test_results_are_lines_of_json(client: anthropic.Anthropic, server: RunningServer) -> None:
    done = ended(client, client.messages.batches.create(requests=[row("a", "WORDS")]))
    assert done.results_url == f"{server.url}/v1/messages/batches/{done.id}/results"
    reply = httpx2.get(done.results_url)
    assert reply.headers["content-type"] == "application/x-jsonl"
    assert len(reply.text.splitlines()) == 1


def test_lists_are_read_both_ways(client: anthropic.Anthropic) -> None:
    made = [ended(client, client.messages.batches.create(requests=[row("a", "WORDS")])).id for _ in range(3)][::-1]
    page = client.messages.batches.list(limit=2)
    assert ([batch.id for batch in page.data], page.has_more) == (made[:2], True)
    assert (page.first_id, page.last_id) == (made[0], made[1])
    assert [batch.id for batch in client.messages.batches.list(limit=1)][:3] == made
    before = client.messages.batches.list(limit=2, before_id=made[2])
    assert [batch.id for batch in before.data] == made[:2]
    assert client.messages.batches.list(before_id=made[0]).data == []
    with pytest.raises(anthropic.BadRequestError):
        client.messages.batches.list(after_id="msgbatch_none")
    with pytest.raises(anthropic.BadRequestError):
        client.messages.batches.list(limit=1001)


def test_cancel_and_delete(client: anthropic.Anthropic) -> None:
    made = client.messages.batches.create(requests=[row(f"r{n}", "FOREVER", max_tokens=2000) for n in range(20)])
    with pytest.raises(anthropic.BadRequestError):
        client.messages.batches.delete(made.id)
    with pytest.raises(anthropic.AnthropicError):
        client.messages.batches.results(made.id)
    stopped = client.messages.batches.cancel(made.id)
    assert (stopped.processing_status, stopped.results_url) == ("canceling", None)
    assert stopped.cancel_initiated_at is not None
    done = ended(client, stopped)
    assert done.request_counts.canceled == 20
    assert {result.result.type for result in results(client, done).values()} == {"canceled"}
    deleted = client.messages.batches.delete(made.id)
    assert (deleted.id, deleted.type) == (made.id, "message_batch_deleted")
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.retrieve(made.id)


def test_refusals(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="requests"):
        client.messages.batches.create(requests=[])
    with pytest.raises(anthropic.BadRequestError, match="custom_id"):
        client.messages.batches.create(requests=[row("a", "x"), row("a", "y")])
    with pytest.raises(anthropic.BadRequestError, match="50"):
        client.messages.batches.create(requests=[row(f"r{n}", "WORDS") for n in range(51)])
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.batches.retrieve("msgbatch_none")
    assert caught.value.body["error"]["type"] == "not_found_error"


def test_wires_do_not_see_each_others_batches(client: anthropic.Anthropic, server: RunningServer) -> None:
    made = ended(client, client.messages.batches.create(requests=[row("a", "WORDS")]))
    with openai_client(server.url) as other:
        assert made.id not in [batch.id for batch in other.batches.list()]


def test_a_batch_outlives_its_server(tmp_path: Path) -> None:
    with running(config(tmp_path)) as server, anthropic_client(server.url) as client:
        done = ended(client, client.messages.batches.create(requests=[row("a", "WORDS")]))
        made = client.messages.batches.create(
            requests=[*(row(f"w{n}", "WORDS") for n in range(3)), row("slow", "SLOWPROMPT"), row("last", "WORDS")]
        )
    with running(config(tmp_path)) as server, anthropic_client(server.url) as client:
        assert results(client, done)["a"].result.type == "succeeded"
        again = ended(client, client.messages.batches.retrieve(made.id))
        assert again.request_counts.succeeded == 5
        assert list(results(client, again)) == ["w0", "w1", "w2", "slow", "last"]
