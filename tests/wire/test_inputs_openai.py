"""What a new user gets wrong on the OpenAI wires: each is told what, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.running import RunningServer
from tests.wire.clients import openai_client
from tests.wire.test_sdk_batches import chat, finished, row, start

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
TURNS = [{"role": "user", "content": "WORDS"}]
POSTS = (CHAT, "/v1/completions", RESPONSES, "/v1/embeddings", "/v1/batches", "/v1/rerank")


@pytest.fixture
def client(fake: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=fake.url, timeout=30) as client:
        yield client


@pytest.fixture
def sdk(fake: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(fake.url) as client:
        yield client


def error_of(reply: httpx2.Response, status: int = 400) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_json_is_read_whatever_it_calls_itself(client: httpx2.Client, path: str, kind: str) -> None:
    """curl -d without a header sends a form's type; people forget the header all the time."""
    reply = client.post(path, content=b'{"unheard_of": 1}', headers={"content-type": kind})
    error = error_of(reply)
    assert error["code"] == "missing_required_parameter" or error["param"]


@pytest.mark.parametrize("path", POSTS)
def test_what_is_no_json_is_named(client: httpx2.Client, path: str) -> None:
    for body in (b"", b"model=x&prompt=y", b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n--b--\r\n'):
        assert error_of(client.post(path, content=body))["code"] == "invalid_json"
    for body in (b"[]", b'"x"', b"null", b"3"):
        assert "JSON object" in error_of(client.post(path, content=body))["message"]


def test_json_where_a_form_belongs(client: httpx2.Client) -> None:
    reply = client.post("/v1/files", json={"file": "x", "purpose": "batch"})
    assert "multipart/form-data" in error_of(reply)["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"messages": "WORDS"}, "messages"),
        (CHAT, {"messages": [{"content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (CHAT, {"messages": TURNS, "temperature": "hot"}, "temperature"),
        (CHAT, {"messages": TURNS, "seed": 1.5}, "seed"),
        (CHAT, {"messages": TURNS, "tools": [{"type": "function"}]}, "tools[0].function"),
        (RESPONSES, {"input": {"role": "user"}}, "input"),
        (RESPONSES, {"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
        ("/v1/completions", {"prompt": [[]]}, "prompt[0]"),
        ("/v1/completions", {"prompt": [10**9]}, "prompt"),
        ("/v1/completions", {"prompt": ["a", 5]}, "prompt[1]"),
        ("/v1/embeddings", {"input": []}, "input"),
        ("/v1/embeddings", {"input": "x", "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_wrong_values_are_named(client: httpx2.Client, path: str, body: dict[str, Any], param: str) -> None:
    assert error_of(client.post(path, json=body))["param"] == param


def test_items_nobody_knows_are_left_out_and_named(client: httpx2.Client) -> None:
    items = [{"type": "nonsense", "x": 1}, {"role": "user", "content": "WORDS"}]
    reply = client.post(RESPONSES, json={"input": items})
    assert reply.json()["status"] == "completed"
    assert "nonsense" in reply.headers["x-dragoman-ignored"]


def test_a_limit_beyond_all_bounds_is_the_room_that_is_left(client: httpx2.Client) -> None:
    reply = client.post(CHAT, json={"messages": TURNS, "max_tokens": 10**30})
    assert reply.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_a_megabyte_of_text_is_told_its_tokens(client: httpx2.Client, path: str) -> None:
    text = "word " * 200_000
    body = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"input": text}
    error = error_of(client.post(path, json=body))
    assert error["code"] == "context_length_exceeded"
    assert "2048" in error["message"]


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches"])
@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=1e3", "limit"),
        ("after=none", "after"),
    ],
)
def test_wrong_cursors(client: httpx2.Client, path: str, query: str, param: str) -> None:
    reply = client.get(f"{path}?{query}")
    assert error_of(reply, 404 if param == "after" and reply.status_code == 404 else 400)["param"] == param


def test_wrong_cursors_of_items(client: httpx2.Client, sdk: openai.OpenAI) -> None:
    id = sdk.responses.create(model="x", input="WORDS").id
    for query, param, status in (
        ("limit=101", "limit", 400),
        ("order=up", "order", 400),
        ("after=msg_x", "after", 404),
    ):
        assert error_of(client.get(f"{RESPONSES}/{id}/input_items?{query}"), status)["param"] == param
    for query, param in (("stream=maybe", "stream"), ("stream=true&starting_after=x", "starting_after")):
        assert error_of(client.get(f"{RESPONSES}/{id}?{query}"))["param"] == param
    assert error_of(client.get(f"{RESPONSES}/{id}?include=nonsense"))["param"] == "include[0]"


def test_lists_in_the_query_keep_all_their_words(client: httpx2.Client, sdk: openai.OpenAI) -> None:
    include: Any = ["reasoning.encrypted_content", "message.output_text.logprobs"]
    id = sdk.responses.create(model="x", input="THINK", include=include).id
    for asked in (include, include[::-1]):
        assert sdk.responses.retrieve(id, include=asked).output[0].encrypted_content  # type: ignore[union-attr]
    reply = client.get(f"{RESPONSES}/{id}?include[]={include[0]}&include[]=nonsense")
    assert error_of(reply)["param"] == "include[1]"


def test_a_file_that_is_deleted_before_its_batch_is_made(sdk: openai.OpenAI) -> None:
    file = sdk.files.create(file=("rows.jsonl", json.dumps(row("a", chat("WORDS"))).encode()), purpose="batch")
    sdk.files.delete(file.id)
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert caught.value.param == "input_file_id"


def test_a_file_that_is_deleted_while_its_batch_runs(sdk: openai.OpenAI) -> None:
    """Rows that were read go on; a batch that came too late says why it failed."""
    made = start(sdk, [row(f"r{n}", chat("WORDS")) for n in range(3)])
    sdk.files.delete(made.input_file_id)
    done = finished(sdk, made)
    if done.status == "failed":
        assert done.errors is not None
        assert [(fault.code, fault.param) for fault in done.errors.data or ()] == [
            ("invalid_input_file", "input_file_id")
        ]
    else:
        assert (done.status, done.request_counts and done.request_counts.completed) == ("completed", 3)


def test_results_that_are_deleted_are_gone_and_the_batch_stays(sdk: openai.OpenAI) -> None:
    done = finished(sdk, start(sdk, [row("a", chat("WORDS"))]))
    assert done.output_file_id is not None
    sdk.files.delete(done.output_file_id)
    with pytest.raises(openai.NotFoundError):
        sdk.files.content(done.output_file_id)
    assert sdk.batches.retrieve(done.id).status == "completed"


def test_a_file_of_another_kind_as_input(sdk: openai.OpenAI) -> None:
    for data in (b"\xff\xfe\x00", b"PK\x03\x04 not text"):
        file = sdk.files.create(file=("rows.jsonl", data), purpose="batch")
        made = sdk.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
        done = finished(sdk, made)
        assert done.status == "failed"
        assert done.errors is not None
        assert done.errors.data


def test_the_server_goes_on(client: httpx2.Client) -> None:
    reply = client.post(CHAT, json={"messages": TURNS})
    assert reply.json()["choices"][0]["message"]["content"] == "one two three four five"
