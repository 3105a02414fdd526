"""cases.md 20 to 28 and 37 to 39 through a whole server, on every OpenAI wire that has a word for them."""

from __future__ import annotations

import dataclasses
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from dragoman.config import ListenSettings
from tests.support.running import RunningServer, running
from tests.wire.conftest import SCRIPT, settings
from tests.wire.scripts import scripted

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES = "/v1/messages"
PATHS = (CHAT, COMPLETIONS, RESPONSES)
KEY = "a-secret-key"


@pytest.fixture
def client(fake: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=fake.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def locked() -> Iterator[httpx2.Client]:
    listen = ListenSettings(port=0, api_keys=(KEY,))
    config = dataclasses.replace(settings(engine="fake", script=SCRIPT), listen=listen)
    with running(config) as server, httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client


def body_of(path: str, text: str, **more: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": text}]
    asked = {CHAT: {"messages": turns}, COMPLETIONS: {"prompt": text}, RESPONSES: {"input": text}}
    return {"model": "x", **asked[path], **more}


def ask(client: httpx2.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def events(client: httpx2.Client, path: str, body: dict[str, Any]) -> list[Any]:
    reply = client.post(path, json={**body, "stream": True})
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def prompt_tokens(client: httpx2.Client, turns: list[dict[str, Any]]) -> dict[str, int]:
    """Tokens the same turns come to on each wire with chats."""
    system = [turn for turn in turns if turn["role"] == "system"][:1] if turns[0]["role"] == "system" else []
    counted: dict[str, int] = {}
    counted[CHAT] = ask(client, CHAT, {"messages": turns})["usage"]["prompt_tokens"]
    counted[RESPONSES] = ask(client, f"{RESPONSES}/input_tokens", {"input": turns})["input_tokens"]
    rest: dict[str, Any] = {"system": system[0]["content"]} if system else {}
    # There, and only there, no thinking is the default, which is part of the prompt.
    message = {"model": "x", "messages": turns[len(system) :], "thinking": {"type": "adaptive"}, **rest}
    counted[MESSAGES] = ask(client, f"{MESSAGES}/count_tokens", message)["input_tokens"]
    return counted


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("wanted", [None, False, True])
def test_case_20_usage_in_the_last_chunk_when_asked(client: httpx2.Client, path: str, wanted: bool | None) -> None:
    more = {} if wanted is None else {"stream_options": {"include_usage": wanted}}
    *chunks, done = events(client, path, body_of(path, "WORDS", **more))
    assert done == "[DONE]"
    told = [chunk for chunk in chunks if chunk.get("usage")]
    assert told == (chunks[-1:] if wanted else [])
    if wanted:
        assert told[0]["choices"] == []
        assert told[0]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0


@pytest.mark.parametrize("path", PATHS)
def test_case_21_headers_come_before_a_long_prefill(client: httpx2.Client, path: str) -> None:
    began = time.monotonic()
    with client.stream("POST", path, json=body_of(path, "SLOWPROMPT", stream=True)) as reply:
        assert reply.status_code == 200
        assert "text/event-stream" in reply.headers["content-type"]
        first = time.monotonic() - began
        reply.read()
    assert first < time.monotonic() - began
    assert "done" in reply.text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_case_22_a_client_that_leaves_frees_its_lane(fake: RunningServer, path: str, stream: bool) -> None:
    address = urlsplit(fake.url)
    raw = json.dumps(body_of(path, "FOREVER", stream=stream, store=False)).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}"
    with socket.create_connection((address.hostname or "", address.port or 80)) as line:
        line.sendall(head.encode() + b"\r\n\r\n" + raw)
        until(lambda: fake.stats().running > 0)
    until(lambda: fake.stats().running == 0)


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_case_23_late_system_text_is_the_same_on_all_wires(client: httpx2.Client, role: str) -> None:
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "WORDS"},
        {"role": "assistant", "content": "one two"},
        {"role": role, "content": "answer BLUE"},
        {"role": "user", "content": "WORDS"},
    ]
    told = ask(client, "/apply-template", {"messages": turns})["prompt"]
    assert told.index("Be brief.") < told.index("one two") < told.index("answer BLUE") < told.rindex("WORDS")
    if role == "system":
        assert len(set(prompt_tokens(client, turns).values())) == 1
    assert ask(client, RESPONSES, {"input": turns})["status"] == "completed"


def test_case_24_developer_is_system_and_merges_with_instructions(client: httpx2.Client) -> None:
    def turns(role: str) -> list[dict[str, str]]:
        return [{"role": role, "content": "reply BANANA"}, {"role": "user", "content": "WORDS"}]

    counted = prompt_tokens(client, turns("system"))
    chat = ask(client, CHAT, {"messages": turns("developer")})["usage"]["prompt_tokens"]
    assert {chat} == set(counted.values())
    merged = {"instructions": "Be brief.", "input": turns("developer")}
    one = [{"role": "system", "content": "Be brief.\n\nreply BANANA"}, {"role": "user", "content": "WORDS"}]
    assert ask(client, f"{RESPONSES}/input_tokens", merged)["input_tokens"] == prompt_tokens(client, one)[CHAT]


def test_case_25_content_arrays_equal_strings(client: httpx2.Client) -> None:
    plain = [{"role": "system", "content": "ab"}, {"role": "user", "content": "WORDS"}]
    arrays = [
        {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "text", "text": "WORDS"}]},
    ]
    items = [
        {"role": "system", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "WORDS"}]},
    ]
    wanted = prompt_tokens(client, plain)[CHAT]
    assert ask(client, CHAT, {"messages": arrays})["usage"]["prompt_tokens"] == wanted
    assert ask(client, f"{RESPONSES}/input_tokens", {"input": items})["input_tokens"] == wanted
    rendered = [ask(client, "/apply-template", {"messages": turns})["prompt"] for turns in (plain, arrays)]
    assert rendered[0] == rendered[1]


def test_case_26_counts_are_those_of_the_real_prompt(client: httpx2.Client) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "WORDS"}]
    prompt = ask(client, "/apply-template", {"messages": turns})["prompt"]
    ids = ask(client, "/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"]
    assert set(prompt_tokens(client, turns).values()) == {len(ids)}
    plain = ask(client, "/tokenize", {"content": "WORDS", "add_special": True})["tokens"]
    assert ask(client, COMPLETIONS, {"prompt": "WORDS"})["usage"]["prompt_tokens"] == len(plain)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_completion_tokens": 2}, 2),
        ({"max_completion_tokens": 2, "max_tokens": 4}, 2),
        ({"max_output_tokens": 2}, 2),
        ({"n_predict": -1}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 3}, 3),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_case_27_limits_and_their_other_names(
    client: httpx2.Client, path: str, fields: dict[str, Any], limit: int | None
) -> None:
    answer = ask(client, path, body_of(path, "WORDS", **fields))
    made = answer["usage"]["output_tokens" if path == RESPONSES else "completion_tokens"]
    cut = answer["status"] == "incomplete" if path == RESPONSES else answer["choices"][0]["finish_reason"] == "length"
    assert cut is (limit is not None)
    assert limit in (None, made)


@contextmanager
def _window(folder: Any, size: int) -> Iterator[httpx2.Client]:
    rules = [{"pieces": ["a", " b"], "repeat": True}]
    with scripted(folder, {"context_length": size, "rules": rules}) as client:
        yield client


def test_case_28_a_prompt_that_does_not_fit(tmp_path_factory: pytest.TempPathFactory) -> None:
    with _window(tmp_path_factory.mktemp("small"), 64) as client:
        for path in PATHS:
            reply = client.post(path, json=body_of(path, "fact " + "x " * 100))
            error = reply.json()["error"]
            assert (reply.status_code, error["code"]) == (400, "context_length_exceeded"), path
            assert "64" in error["message"]
            fitting = ask(client, path, body_of(path, "x" * 20, max_tokens=600))
            usage = fitting["usage"]
            assert usage["total_tokens"] <= 64
            assert "length" in str(fitting) or fitting["status"] == "incomplete"


def test_case_37_every_event_is_typed_numbered_and_placed(client: httpx2.Client) -> None:
    look = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    tools = [
        look,
        {"type": "web_search"},
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "ns", "description": "", "tools": [{**look, "name": "inner"}]},
    ]
    seen = events(client, RESPONSES, body_of(RESPONSES, "WEATHER", tools=tools))
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    final = seen[-1]["response"]
    assert seen[-1]["type"] == "response.completed"
    for place, item in enumerate(final["output"]):
        of_item = [event for event in seen if event.get("output_index") == place]
        assert {event.get("item_id", event.get("item", {}).get("id")) for event in of_item} == {item["id"]}
        assert of_item[0]["type"] == "response.output_item.added"
        assert of_item[-1]["type"] == "response.output_item.done"
        assert of_item[-1]["item"] == item
        for event in of_item[1:-1]:
            assert ("content_index" in event) == (item["type"] == "message")
    assert [item["type"] for item in final["output"]] == ["message", "function_call"]


def test_case_38_preflight_and_keys(locked: httpx2.Client) -> None:
    origin = {"origin": "http://localhost:3000"}
    asking = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-api-key"}
    for path in PATHS:
        preflight = locked.options(path, headers={**origin, **asking})
        assert preflight.is_success
        assert preflight.headers["access-control-allow-origin"] == origin["origin"]
        body = body_of(path, "WORDS")
        for shown in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
            assert locked.post(path, json=body, headers=shown).status_code == 200
        refused = locked.post(path, json=body, headers=origin)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        assert refused.headers["access-control-allow-origin"] == origin["origin"]


def test_case_39_names(client: httpx2.Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    listed = client.get("/v1/models").json()["data"][0]
    assert {"id", "object", "created", "owned_by"} <= set(listed)
    assert listed["context_length"] == listed["max_model_len"] == 2048
    one = client.get(f"/v1/models/{listed['id']}").json()
    assert one["context_length"] == 2048
    reply = client.get("/v1/models/nope")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
    script = {"rules": [{"pieces": ["a"]}]}
    with scripted(tmp_path_factory.mktemp("names"), script, strict_models=True) as strict:
        name = strict.get("/v1/models").json()["data"][0]["id"]
        for path in PATHS:
            assert strict.post(path, json={**body_of(path, "x"), "model": name}).status_code == 200
            refused = strict.post(path, json={**body_of(path, "x"), "model": "nope"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
