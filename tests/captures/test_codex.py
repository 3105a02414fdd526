"""What Codex sent (as a provider of its own, and in its two local modes), replayed against a whole server: nothing is
refused, and every stream is one whose events the official SDK knows and that adds up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.wire.scripts import scripted

DATA = Path(__file__).parents[1] / "dialects" / "openai_responses" / "data"
RECORDED: dict[str, Any] = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
STREAMS = [name for name, record in RECORDED.items() if record["body"].get("stream")]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
CALL = '<tool_call>\n{"name": "exec_command", "arguments": {"cmd": "echo hi"}}\n</tool_call>'
SCRIPT = {
    "context_length": 100_000,
    "rules": [{"pieces": ["<think>", "so", "</think>", "Let me", " run it. ", CALL]}],
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("codex"), SCRIPT) as client:
        yield client


def send(client: httpx2.Client, name: str, body: dict[str, Any] | None = None) -> httpx2.Response:
    record = RECORDED[name]
    reply = client.post(record["path"], json=body or record["body"], headers=record["headers"])
    assert reply.status_code == 200, reply.text
    return reply


def events_of(reply: httpx2.Response) -> list[dict[str, Any]]:
    """The events of a stream, each named after its type and numbered in order."""
    found: list[dict[str, Any]] = []
    for block in reply.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def check_items(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every item is added once and done once, with the same id in all that is said of it; gives the items done."""
    added = {event["output_index"]: event["item"]["id"] for event in events if event["type"].endswith("item.added")}
    done = {event["output_index"]: event["item"] for event in events if event["type"].endswith("item.done")}
    assert list(added) == list(range(len(added))) == list(done)
    assert {index: item["id"] for index, item in done.items()} == added
    for event in events:
        if "item_id" in event:
            assert event["item_id"] == added[event["output_index"]]
    return list(done.values())


def test_everything_recorded_is_here() -> None:
    codex = [name for name in RECORDED if name.startswith("codex")]
    assert codex == [f"codex-{number}" for number in ("01", "02", "05", "06", "07", "11", "12", "13", "14")]


@pytest.mark.parametrize("name", STREAMS)
def test_replay(client: httpx2.Client, name: str) -> None:
    reply = send(client, name)
    events = events_of(reply)
    for event in events:
        EVENT.validate_python(event)
    assert (events[0]["type"], events[1]["type"]) == ("response.created", "response.in_progress")
    last = events[-1]
    assert last["type"] == "response.completed"
    items = check_items(events)
    assert last["response"]["output"] == items
    offered = {tool.get("name") for tool in RECORDED[name]["body"].get("tools", ())}
    kinds = ["reasoning", "message"] + (["function_call"] if "exec_command" in offered else [])
    assert [item["type"] for item in items] == kinds
    response = Response.model_validate(last["response"])
    assert response.usage is not None
    assert response.usage.input_tokens > 100
    hosted = [tool["type"] for tool in RECORDED[name]["body"].get("tools", ()) if tool["type"] == "web_search"]
    assert ("web_search" in reply.headers.get("x-dragoman-ignored", "")) is bool(hosted)


@pytest.mark.parametrize("name", [name for name in STREAMS if name.startswith("codex")])
def test_phases_and_thoughts_are_as_codex_reads_them(client: httpx2.Client, name: str) -> None:
    thought, message, call = events_of(send(client, name))[-1]["response"]["output"]
    assert thought["encrypted_content"].startswith("dragoman.reasoning.")
    assert message["phase"] == "commentary"
    assert json.loads(call["arguments"]) == {"cmd": "echo hi"}


def test_a_second_turn_replays_the_first_and_finds_it_cached(client: httpx2.Client) -> None:
    body = RECORDED["codex-13"]["body"]
    first = events_of(send(client, "codex-13"))[-1]["response"]
    [*_, call] = first["output"]
    result = {"type": "function_call_output", "id": "fco_1", "call_id": call["call_id"], "output": "hi"}
    grown = {**body, "input": [*body["input"], *first["output"], result]}
    usage = events_of(send(client, "codex-13", grown))[-1]["response"]["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"]


def test_the_ping_of_the_local_mode(client: httpx2.Client) -> None:
    answer = send(client, "codex-05").json()
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_what_the_local_modes_look_up(client: httpx2.Client) -> None:
    listed = client.get("/v1/models").json()["data"]
    version = client.get("/api/version").json()["version"]
    tagged = [model["name"] for model in client.get("/api/tags").json()["models"]]
    assert [entry["id"] for entry in listed] == ["fake"]
    assert tuple(map(int, version.split("-")[0].split("."))) >= (0, 13, 4)
    assert tagged == ["fake:latest"]
