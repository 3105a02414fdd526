"""Every method and helper of the official SDK for responses, files and batches: on the scripted engine, and by
`make long` on the real ones."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.resources import Batches, Files
from openai.resources.responses import Responses
from openai.resources.responses.input_items import InputItems
from openai.resources.responses.input_tokens import InputTokens
from openai.types import Batch
from pydantic import BaseModel, Field

from tests.support.running import RunningServer
from tests.wire.clients import MODEL

ASKED: dict[str, Any] = {"model": MODEL, "input": "Say WORDS.", "max_output_tokens": 3, "temperature": 0}
# The helper takes an answer that the limit cut for a fault, so these end at the first blank.
ENDED: dict[str, Any] = {**ASKED, "max_output_tokens": 60, "extra_body": {"stop": [" "]}}
CHAT = {"messages": [{"role": "user", "content": "Say WORDS."}]}
# Endpoint, body, and where the answer's text is.
ROWS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], str]]] = {
    "/v1/chat/completions": (CHAT, lambda body: body["choices"][0]["message"]["content"]),
    "/v1/completions": ({"prompt": "WORDS and"}, lambda body: body["choices"][0]["text"]),
    "/v1/responses": ({"input": "Say WORDS."}, lambda body: body["output"][0]["content"][0]["text"]),
}
# What the tests below call; a method that a new SDK adds has to be put here with a test.
TOUCHED = {
    Responses: {"create", "stream", "parse", "retrieve", "cancel", "delete", "compact", "connect"},
    InputItems: {"list"},
    InputTokens: {"count"},
    Files: {"create", "retrieve", "list", "delete", "content", "retrieve_content", "wait_for_processing"},
    Batches: {"create", "retrieve", "cancel", "list"},
}


@pytest.fixture(
    scope="module",
    params=["fake", *(pytest.param(name, marks=pytest.mark.long) for name in ("llamacpp", "mlx"))],
)
def server(request: pytest.FixtureRequest) -> RunningServer:
    return request.getfixturevalue(request.param)


class City(BaseModel):
    """A place with people."""

    city: str = Field(max_length=12)


def strict(answer: BaseModel) -> None:
    """As received it is of the SDK's own types, to the letter."""
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)


def until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def ended(client: openai.OpenAI, batch: Batch) -> Batch:
    def now() -> Batch | None:
        found = client.batches.retrieve(batch.id)
        return found if found.status in ("completed", "failed", "expired", "cancelled") else None

    return until(now)


@pytest.mark.parametrize("resource", TOUCHED, ids=lambda kind: kind.__qualname__)
def test_no_method_is_forgotten(resource: type) -> None:
    named = {
        name
        for name, value in inspect.getmembers(resource)
        if inspect.isfunction(value) and not name.startswith("_") and not name.startswith("with_")
    }
    assert named == TOUCHED[resource]


def test_a_response_and_what_becomes_of_it(client: openai.OpenAI) -> None:
    whole = client.responses.create(**ASKED)
    strict(whole)
    assert whole.output_text
    assert client.responses.retrieve(whole.id) == whole
    assert client.responses.input_tokens.count(model=MODEL, input="Say WORDS.").input_tokens == whole.usage.input_tokens
    assert [item.role for item in client.responses.input_items.list(whole.id)] == ["user"]
    following = client.responses.create(**{**ASKED, "input": "Again."}, previous_response_id=whole.id)
    assert following.usage.input_tokens > whole.usage.input_tokens
    assert len(client.responses.input_items.list(following.id).data) == 3
    client.responses.delete(whole.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(whole.id)


def test_response_streams(client: openai.OpenAI) -> None:
    with client.responses.create(**ENDED, stream=True) as events:
        seen = list(events)
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    with client.responses.stream(**ENDED) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(texts) == final.output_text == seen[-1].response.output_text
    with client.responses.stream(response_id=final.id, starting_after=2) as again:
        assert again.get_final_response().output_text == final.output_text


def test_a_response_in_the_background(client: openai.OpenAI) -> None:
    begun = client.responses.create(**ASKED, background=True)
    assert begun.status in ("queued", "in_progress")
    done = until(lambda: (now := client.responses.retrieve(begun.id)).status in ("completed", "incomplete") and now)
    assert done.output_text
    # One that is over is told as it is.
    assert client.responses.cancel(begun.id).status == done.status
    other = client.responses.create(**{**ASKED, "input": "FOREVER", "max_output_tokens": 900}, background=True)
    assert client.responses.cancel(other.id).status == "cancelled"


def test_a_parsed_response(client: openai.OpenAI, server: RunningServer) -> None:
    if server.room.model.card.engine == "fake":
        pytest.skip("the scripted engine says its lines")
    asked = {**ASKED, "input": "Name a city as JSON.", "max_output_tokens": 60}
    assert isinstance(client.responses.parse(**asked, text_format=City).output_parsed, City)


def test_what_is_not_offered(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.compact(model=MODEL, input="x")
    assert (caught.value.status_code, caught.value.type) == (501, "not_supported_error")
    # A socket needs a package of its own; without one the SDK says so, with one the server does.
    with pytest.raises(Exception, match=r"websockets|HTTP 40"), client.responses.connect():
        pass


def test_files(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"some notes")
    made = client.files.create(file=path, purpose="user_data")
    strict(made)
    assert client.files.retrieve(made.id) == client.files.wait_for_processing(made.id) == made
    assert made.id in [file.id for file in client.files.list(limit=1, order="asc")]
    assert client.files.content(made.id).read() == b"some notes"
    with pytest.warns(DeprecationWarning, match="content"):
        assert client.files.retrieve_content(made.id) == "some notes"
    assert client.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.content(made.id)


@pytest.mark.parametrize("endpoint", ROWS)
def test_a_batch_says_what_a_request_says(client: openai.OpenAI, endpoint: str) -> None:
    body, text = ROWS[endpoint]
    limit = "max_output_tokens" if endpoint == "/v1/responses" else "max_tokens"
    body = {"model": MODEL, "temperature": 0, limit: 4, **body}
    rows = [{"custom_id": name, "method": "POST", "url": endpoint, "body": body} for name in ("a", "b")]
    file = client.files.create(file=("rows.jsonl", "\n".join(map(json.dumps, rows)).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")  # type: ignore[arg-type]
    done = ended(client, batch)
    strict(done)
    assert (done.status, done.request_counts.completed, done.request_counts.failed) == ("completed", 2, 0)
    answers = [json.loads(line) for line in client.files.content(done.output_file_id).text.splitlines()]
    assert {answer["custom_id"] for answer in answers} == {"a", "b"}
    said = text(json.loads(client.post(endpoint.removeprefix("/v1"), body=body, cast_to=str)))
    assert {text(answer["response"]["body"]) for answer in answers} == {said}
    assert batch.id in [one.id for one in client.batches.list(limit=50)]


def test_a_batch_is_cancelled(client: openai.OpenAI) -> None:
    body = {"model": MODEL, "prompt": "FOREVER", "max_tokens": 900}
    row = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": body}
    file = client.files.create(file=("rows.jsonl", json.dumps(row).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    assert ended(client, batch).status == "cancelled"
