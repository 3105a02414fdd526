"""What Claude Code (and pi on the same wire) sent, replayed against a whole server: nothing of it is refused, and every
stream is one that the official SDK folds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaRawMessageStreamEvent
from pydantic import TypeAdapter

from dragoman.dialects.anthropic.read import read_messages
from tests.dialects.wire import captures
from tests.wire.scripts import scripted

PATH = "/v1/messages"
RECORDED = captures(PATH)
CLAUDE = [name for name in RECORDED if name.startswith("claude-code")]
EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)
CALL = '<tool_call>\n{"name": "Bash", "arguments": {"command": "echo hi"}}\n</tool_call>'
SCRIPT = {
    "context_length": 200_000,
    "rules": [{"pieces": ["<think>", "so", "</think>", "Let me", " run it. ", CALL]}],
}
ASIDE = {"type": "adaptive", "display": "omitted"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("claude"), SCRIPT) as client:
        yield client


def events_of(reply: httpx2.Response) -> list[dict[str, Any]]:
    """The events of a stream, each named after its type."""
    found: list[dict[str, Any]] = []
    for block in reply.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def message_of(events: list[dict[str, Any]]) -> Any:
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if event["type"] == "ping":
            continue
        typed = EVENT.validate_python(event, strict=True)
        snapshot = accumulate_event(
            event=typed, current_snapshot=snapshot, json_bufs=buffers, request_headers=httpx2.Headers()
        )
    return snapshot


def send(client: httpx2.Client, name: str, body: dict[str, Any]) -> httpx2.Response:
    reply = client.post(f"{PATH}?beta=true", json=body, headers={**RECORDED[name].headers, "x-api-key": "dummy"})
    assert reply.status_code == 200, reply.text
    assert "x-dragoman-ignored" not in reply.headers
    assert reply.headers["request-id"].startswith("req_")
    return reply


def test_everything_recorded_is_here() -> None:
    assert [f"claude-code-{number}" for number in ("02", "03", "05", "07", "08", "09")] == CLAUDE
    assert set(RECORDED) - set(CLAUDE) == {"pi-05", "pi-06"}


def test_somebody_is_there(client: httpx2.Client) -> None:
    reply = client.head("/", headers={"user-agent": "Bun/1.4.0"})
    assert (reply.status_code, reply.content) == (200, b"")


@pytest.mark.parametrize("name", RECORDED)
def test_replay(client: httpx2.Client, name: str) -> None:
    body = json.loads(RECORDED[name].body)
    events = events_of(send(client, name, body))
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    message = message_of(events)
    offered = {tool["name"] for tool in body.get("tools") or ()}
    kinds = ["thinking", "text", "tool_use"] if "Bash" in offered else ["thinking", "text"]
    assert [block.type for block in message.content] == kinds
    assert message.stop_reason == ("tool_use" if "Bash" in offered else "end_turn")
    assert message.content[0].signature.startswith("dragoman.thinking.")
    if "context_management" in body:
        assert message.context_management.applied_edits == []
    counted = client.post(f"{PATH}/count_tokens", json=body)
    used = message.usage
    assert counted.json()["input_tokens"] == used.input_tokens + used.cache_read_input_tokens


@pytest.mark.parametrize("name", CLAUDE)
def test_it_is_known_for_what_it_is(name: str) -> None:
    wire = RECORDED[name]
    assert read_messages(wire).agent == "claude_code:detected"


def test_a_turn_with_an_omitted_thought_and_another_billing_header(client: httpx2.Client) -> None:
    """The second turn finds all of the first in the cache, thought and call included."""
    body = {**json.loads(RECORDED["claude-code-07"].body), "thinking": ASIDE}
    first = message_of(events_of(send(client, "claude-code-07", body)))
    thought, said, call = first.content
    assert (thought.thinking, thought.signature.split(".")[1]) == ("", "thinkingc")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "hi", "is_error": False}
    turn = {"role": "assistant", "content": [block.to_dict() for block in (thought, said, call)]}
    body["messages"] += [turn, {"role": "user", "content": [result]}]
    body["system"][0]["text"] = body["system"][0]["text"].replace("2.1.197", "2.1.198")
    second = message_of(events_of(send(client, "claude-code-07", body)))
    shared = first.usage.input_tokens + first.usage.cache_read_input_tokens
    assert second.usage.cache_read_input_tokens >= 0.95 * shared
    forged = {**turn, "content": [{**turn["content"][0], "signature": "EqQBCg"}, *turn["content"][1:]]}
    without = client.post(
        f"{PATH}/count_tokens", json={**body, "messages": [*body["messages"][:1], forged, *body["messages"][2:]]}
    )
    assert without.json()["input_tokens"] < second.usage.input_tokens + second.usage.cache_read_input_tokens
