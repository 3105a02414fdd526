"""Thoughts on Messages: signed as they go out, believed when they come back unchanged, and otherwise dropped and
counted; and edits of long conversations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.wire.asking import anthropic as ask_messages
from tests.wire.scripts import scripted

HI = {"role": "user", "content": "hi"}
KEPT = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
SCRIPT = {"context_length": 8192, "rules": [{"pieces": ["<think>", "so", " so", "</think>", "Hi", " there"]}]}
METRIC = 'dragoman_dropped_thoughts_total{dialect="anthropic"} '
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("thoughts"), SCRIPT) as client:
        yield client


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Another server with another key."""
    with scripted(tmp_path_factory.mktemp("other"), SCRIPT) as client:
        yield client


def thought(server: httpx2.Client, display: str, stream: bool = False) -> dict[str, Any]:
    """The thinking block of an answer."""
    thinking = {"type": "adaptive", "display": display}
    said = ask_messages(server, {"messages": [HI], "thinking": thinking}, stream)
    if not stream:
        return said.frames[0]["content"][0]
    deltas = [frame["delta"] for frame in said.frames if frame["type"] == "content_block_delta" and frame["index"] == 0]
    return {
        "type": "thinking",
        "thinking": "".join(delta.get("thinking", "") for delta in deltas),
        "signature": "".join(delta.get("signature", "") for delta in deltas),
    }


def replayed(*blocks: dict[str, Any]) -> dict[str, Any]:
    said = {"role": "assistant", "content": [*blocks, {"type": "text", "text": "Hi there"}]}
    return {"messages": [HI, said, HI], "thinking": {"type": "adaptive"}, "context_management": KEPT}


def count(server: httpx2.Client, body: dict[str, Any]) -> int:
    reply = server.post("/v1/messages/count_tokens", json={"model": "m", **body})
    assert reply.status_code == 200, reply.text
    return reply.json()["input_tokens"]


def dropped(server: httpx2.Client) -> float:
    lines = server.get("/metrics").text.splitlines()
    return next((float(line.removeprefix(METRIC)) for line in lines if line.startswith(METRIC)), 0.0)


@STREAMS
@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_a_thought_comes_back(server: httpx2.Client, display: str, stream: bool) -> None:
    block = thought(server, display, stream)
    assert block["thinking"] == ("" if display == "omitted" else "so so")
    before = dropped(server)
    said = ask_messages(server, replayed(block), stream)
    assert (said.status, dropped(server)) == (200, before)
    shown = thought(server, "summarized")
    assert count(server, replayed(block)) == count(server, replayed(shown)) > count(server, replayed())


def test_an_omitted_thought_may_come_back_redacted(server: httpx2.Client) -> None:
    signature = thought(server, "omitted")["signature"]
    block = {"type": "redacted_thinking", "data": signature}
    assert count(server, replayed(block)) == count(server, replayed(thought(server, "summarized")))


@pytest.mark.parametrize(
    "forge",
    [
        lambda block: {**block, "thinking": "another thought"},
        lambda block: {**block, "signature": block["signature"][:-2] + "AA"},
        lambda block: {**block, "signature": "EqQBCkYIBBgCIkA"},
        lambda block: {**block, "signature": ""},
        lambda block: {"type": "thinking", "thinking": block["thinking"] or "so so"},
        lambda block: {"type": "redacted_thinking", "data": "EmwKAhgBEgy"},
        lambda block: {"type": "redacted_thinking", "data": block["signature"].replace("thinkingc", "reasoning")},
    ],
)
@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_what_was_not_signed_here_is_dropped_and_counted(server: httpx2.Client, display: str, forge: Any) -> None:
    block = forge(thought(server, display))
    before = dropped(server)
    assert ask_messages(server, replayed(block), False).status == 200
    assert dropped(server) == before + 1
    assert count(server, replayed(block)) == count(server, replayed())


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_thoughts_of_another_server_are_dropped(server: httpx2.Client, other: httpx2.Client, display: str) -> None:
    block = thought(other, display)
    before = dropped(server)
    assert ask_messages(server, replayed(block), False).status == 200
    assert dropped(server) == before + 1
    assert count(server, replayed(block)) == count(server, replayed())


def test_a_thought_signed_on_responses_is_none_of_this_wire(server: httpx2.Client) -> None:
    asked = {"input": "hi", "store": False, "include": ["reasoning.encrypted_content"]}
    output = server.post("/v1/responses", json=asked).json()["output"]
    signature = output[0]["encrypted_content"]
    assert signature.startswith("dragoman.reasoning.")
    for block in (
        {"type": "thinking", "thinking": "", "signature": signature},
        {"type": "redacted_thinking", "data": signature},
    ):
        assert count(server, replayed(block)) == count(server, replayed())


# --- edits


def talk(server: httpx2.Client, turns: int, thinking: bool = True) -> list[dict[str, Any]]:
    """A conversation in which each turn thinks, calls a tool and gets a long result."""
    block = [thought(server, "summarized")] if thinking else []
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"place": "Oslo"}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "cold and wet " * 20}
        messages += [HI, {"role": "assistant", "content": [*block, use]}, {"role": "user", "content": [result]}]
        messages += [{"role": "assistant", "content": "Hi there"}]
    return [*messages, HI]


def edited(*edits: dict[str, Any]) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive"}, "context_management": {"edits": list(edits)}}


USES = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 3}}
THOUGHTS = {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}}


@STREAMS
def test_edits_are_made_and_told(server: httpx2.Client, stream: bool) -> None:
    messages = talk(server, 5)
    body = {"messages": messages, **edited(THOUGHTS, {**USES, "keep": {"type": "tool_uses", "value": 1}})}
    said = ask_messages(server, body, stream)
    assert said.status == 200, said.error
    last = next(frame for frame in said.frames if frame.get("context_management"))
    assert last["type"] == ("message_delta" if stream else "message")
    thoughts, uses = last["context_management"]["applied_edits"]
    assert (thoughts["type"], thoughts["cleared_thinking_turns"]) == (THOUGHTS["type"], 3)
    assert (uses["type"], uses["cleared_tool_uses"]) == (USES["type"], 4)
    original = count(server, {"messages": messages, **edited({**THOUGHTS, "keep": "all"})})
    saved = thoughts["cleared_input_tokens"] + uses["cleared_input_tokens"]
    used = (said.frames[0]["message"] if stream else said.frames[0])["usage"]
    assert used["input_tokens"] + used["cache_read_input_tokens"] == original - saved
    assert thoughts["cleared_input_tokens"] > 0 < uses["cleared_input_tokens"]


def test_counting_tells_before_and_after(server: httpx2.Client) -> None:
    body = {"messages": talk(server, 5), **edited(USES)}
    reply = server.post("/v1/messages/count_tokens", json={"model": "m", **body}).json()
    original = reply["context_management"]["original_input_tokens"]
    assert original == count(server, {**body, "context_management": {"edits": []}}) > reply["input_tokens"]
    plain = server.post("/v1/messages/count_tokens", json={"model": "m", "messages": [HI]}).json()
    assert "context_management" not in plain


@pytest.mark.parametrize(
    "edit",
    [
        {**USES, "trigger": {"type": "tool_uses", "value": 5}},
        {**USES, "trigger": {"type": "input_tokens", "value": 100_000}},
        {**USES, "exclude_tools": ["look"]},
        {**USES, "clear_at_least": {"type": "input_tokens", "value": 100_000}},
        {**THOUGHTS, "keep": "all"},
    ],
)
def test_edits_that_do_nothing_are_not_told(server: httpx2.Client, edit: dict[str, Any]) -> None:
    said = ask_messages(server, {"messages": talk(server, 5), **edited(edit)}, False)
    assert said.frames[0]["context_management"] == {"applied_edits": []}


def test_edits_make_room_in_the_window(server: httpx2.Client) -> None:
    messages = talk(server, 40)
    assert ask_messages(server, {"messages": messages}, False).status == 400
    said = ask_messages(server, {"messages": messages, **edited({**USES, "clear_tool_inputs": True})}, False)
    assert said.status == 200, said.error
    assert said.frames[0]["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 37


@pytest.mark.parametrize("kind", ["compact_20260112", "clear_all"])
def test_other_edits_are_refused_by_name(server: httpx2.Client, kind: str) -> None:
    said = ask_messages(server, {"messages": [HI], **edited({"type": kind})}, False)
    assert said.status == 400
    assert kind in (said.error or "")
    assert "context_management.edits[0].type" in (said.error or "")


def test_a_full_window_is_told_from_a_limit(server: httpx2.Client) -> None:
    room = 8192 - count(server, {"messages": [HI], "thinking": {"type": "disabled"}})
    long = {"role": "user", "content": "x" * (room - 8)}
    said = ask_messages(server, {"messages": [long], "max_tokens": 4096}, False)
    assert (said.status, said.finish) in ((200, "model_context_window_exceeded"), (200, "end_turn"))
    assert ask_messages(server, {"messages": [HI], "max_tokens": 2}, False).finish == "max_tokens"
