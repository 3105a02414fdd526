"""cases.md 8, 9, 29, 31, 36 and 37 on Responses, through a whole server, and what Codex adds: custom tools with
grammars, and why a prefix missed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.wire.asking import openai_responses as ask
from tests.wire.scripts import scripted

RULES = "Be brief. " * 30
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"place": {}}}}
PATCH = {"type": "custom", "name": "patch"}
SPACE = {"type": "namespace", "name": "files", "description": "", "tools": [{"type": "function", "name": "open"}]}
TOOLS = [LOOK, {"type": "web_search"}, PATCH, SPACE]
GRAMMAR = 'start: "*** Begin" LF line+ "*** End"\nline: "+" /(.*)/ LF\n%import common.LF\n'
GOOD, BAD = '*** Begin\n+a "b" \\ c\n*** End', "*** Nothing of the kind"
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def called(name: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


SCRIPT = {
    "context_length": 8192,
    "rules": [
        {"match": "PATCHIT", "pieces": list(called("patch", {"input": GOOD}))},
        {"match": "BREAKIT", "pieces": list(called("patch", {"input": BAD}))},
        {"match": "THINK", "pieces": ["<think>", "so", "</think>", "Hi"]},
        {"match": "OPENIT", "pieces": [called("files.open", {"path": "a"})]},
        {"pieces": ["The", " answer", "."]},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("responses"), SCRIPT) as client:
        yield client


@pytest.fixture(scope="module")
def masking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("masking"), {**SCRIPT, "grammar": True}) as client:
        yield client


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call_of(arguments: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": arguments, **fields}


def result_of(text: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def usage(server: httpx2.Client, items: list[dict[str, Any]], stream: bool = False, **fields: Any) -> dict[str, Any]:
    said = ask(server, {"input": items, "tools": [LOOK], "store": False, **fields}, stream)
    assert said.status == 200, said.error
    last = said.frames[-1]
    return last["response"]["usage"] if stream else last["usage"]


def test_case_08_arguments_in_history_count_as_on_chat(server: httpx2.Client) -> None:
    told = usage(server, [user("hi"), call_of('{"place":"Oslo"}'), result_of("rain")])
    function = {key: value for key, value in LOOK.items() if key != "type"}
    messages = [
        user("hi"),
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": "look", "arguments": '{"place": "Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "x", "content": "rain"},
    ]
    body = {"model": "m", "messages": messages, "tools": [{"type": "function", "function": function}]}
    chat = server.post("/v1/chat/completions", json=body).json()
    assert told["input_tokens"] == chat["usage"]["prompt_tokens"]


@pytest.mark.parametrize("arguments", ['{"place":', "look at it", "", "[1]", '"text"', "null"])
def test_case_08_invalid_arguments_in_history_are_no_server_fault(server: httpx2.Client, arguments: str) -> None:
    assert ask(server, {"input": [user("hi"), call_of(arguments), result_of("")]}, False).status in (200, 400)


def test_case_09_empty_assistant_text_beside_a_call_changes_nothing(server: httpx2.Client) -> None:
    empty = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]}
    plain = [user("hi"), call_of("{}"), result_of("")]
    counts = {
        usage(server, items)["input_tokens"]
        for items in (plain, [plain[0], empty, *plain[1:]], [plain[0], {**empty, "content": ""}, *plain[1:]])
    }
    assert len(counts) == 1


def test_case_29_what_codex_sends_anew_each_turn_costs_no_prefix(server: httpx2.Client) -> None:
    def asked(mark: str) -> dict[str, Any]:
        items = [{"type": "message", "id": f"msg_{mark}", "role": "developer", "content": RULES}, user("hi")]
        return usage(server, items, client_metadata={"turn": mark}, prompt_cache_key=mark, metadata={"a": mark})

    first, second = asked("aaaaa"), asked("bbbbb")
    assert second["input_tokens"] == first["input_tokens"]
    assert second["input_tokens_details"]["cached_tokens"] >= first["input_tokens"] - 2


def test_case_31_a_late_developer_message_keeps_the_prefix(server: httpx2.Client) -> None:
    start = [{"role": "developer", "content": RULES}, user("first question")]
    first = usage(server, start)
    late = [*start, {"role": "assistant", "content": "The answer."}, {"role": "developer", "content": "answer BLUE"}]
    second = usage(server, [*late, user("second question")])
    assert second["input_tokens_details"]["cached_tokens"] >= first["input_tokens"]


@STREAMS
def test_case_36_counts_agree(server: httpx2.Client, stream: bool) -> None:
    items = [user("how many?")]
    used = usage(server, items, stream)
    counted = server.post("/v1/responses/input_tokens", json={"model": "m", "input": items, "tools": [LOOK]})
    assert used["input_tokens"] == counted.json()["input_tokens"] > 0
    assert used["total_tokens"] == used["input_tokens"] + used["output_tokens"]


@STREAMS
@pytest.mark.parametrize(
    ("word", "kind", "name", "namespace"),
    [("PATCHIT", "custom_tool_call", "patch", None), ("OPENIT", "function_call", "open", "files")],
)
def test_case_37_custom_and_namespaced_tools_make_the_round(
    server: httpx2.Client, stream: bool, word: str, kind: str, name: str, namespace: str | None
) -> None:
    said = ask(server, {"input": [user(word)], "tools": TOOLS, "max_output_tokens": 400}, stream)
    response = said.frames[-1]["response"] if stream else said.frames[-1]
    [call] = response["output"]
    assert (call["type"], call["name"], call.get("namespace")) == (kind, name, namespace)
    assert call.get("input", GOOD) == GOOD
    result = {"type": f"{kind}_output", "call_id": call["call_id"], "output": "done"}
    again = usage(server, [user(word), call, result], tools=TOOLS)
    assert again["input_tokens_details"]["cached_tokens"] >= response["usage"]["input_tokens"]


def patch_tool(**format: str) -> dict[str, Any]:
    return {**PATCH, "format": {"type": "grammar", **format}}


@STREAMS
@pytest.mark.parametrize(
    "tool",
    [
        patch_tool(syntax="lark", definition=GRAMMAR),
        patch_tool(syntax="regex", definition=r"\*\*\* Begin\n(\+.*\n)+\*\*\* End"),
    ],
    ids=["lark", "regex"],
)
def test_a_grammar_of_a_custom_tool_masks_its_text(masking: httpx2.Client, stream: bool, tool: dict[str, Any]) -> None:
    """What the script says is taken where the grammar allows it; where not, something that it does allow is written."""

    def said(word: str) -> list[dict[str, Any]]:
        fields = {"input": [user(word)], "tools": [tool], "max_output_tokens": 400, "store": False}
        frame = ask(masking, fields, stream).frames[-1]
        return (frame["response"] if stream else frame)["output"]

    [call] = said("PATCHIT")
    assert (call["type"], call["input"]) == ("custom_tool_call", GOOD)
    for item in said("BREAKIT"):
        assert BAD not in json.dumps(item)
        assert item["type"] != "custom_tool_call" or item["input"].startswith("*** Begin\n+")


def test_the_log_says_why_a_prefix_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first token that differs, and its text, of what was kept and of what was asked."""
    with scripted(tmp_path, SCRIPT) as server, caplog.at_level(logging.INFO, logger="dragoman"):
        for word in ("green", "brown"):
            items = [{"role": "developer", "content": f"{RULES}{word} {RULES}"}, user("hi")]
            usage(server, items)
        metrics = server.get("/metrics").text
    fields = [record.__dict__.get("fields", {}) for record in caplog.records]
    [miss] = [entry["miss"] for entry in fields if entry.get("miss", {}).get("reason") not in (None, "empty")]
    assert miss["reason"] == "diverged"
    assert miss["shared"] > len(RULES)
    assert (miss["kept_text"], miss["asked_text"]) == ("g", "b")
    assert 'dragoman_prefix_misses_total{reason="diverged"} 1.0' in metrics


def dropped(client: httpx2.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("dragoman_dropped_thoughts_total{"))


def replayed(client: httpx2.Client, thought: dict[str, Any]) -> tuple[int, float]:
    """Tokens of a prompt with the thought in it, and how many thoughts were dropped from it."""
    before = dropped(client)
    items = [user("a"), thought, {"role": "assistant", "content": "Hi"}, user("b")]
    said = ask(client, {"input": items, "reasoning": {"context": "all_turns"}}, False)
    assert said.status == 200, said.error
    return said.frames[-1]["usage"]["input_tokens"], dropped(client) - before


def test_forged_damaged_and_borrowed_signatures_are_dropped_and_counted(server: httpx2.Client) -> None:
    """Of another tenant, model or key: see tests/service/test_thoughts.py, for keys of the server are no tenants."""
    asked = {"input": [user("THINK")], "include": ["reasoning.encrypted_content"]}
    thought = ask(server, asked, False).frames[-1]["output"][0]
    signature = thought["encrypted_content"]
    other = server.post(
        "/v1/messages",
        json={
            "model": "m",
            "max_tokens": 50,
            "messages": [user("THINK")],
            "thinking": {"type": "adaptive", "display": "omitted"},
        },
    ).json()["content"][0]["signature"]
    kept, none = replayed(server, thought)
    assert none == 0
    bad = [signature[:-4] + "AAAA", signature.replace(".reasoning.", ".thinkingc."), other, "not ours", signature + "."]
    for forged in bad:
        tokens, count = replayed(server, {**thought, "encrypted_content": forged})
        assert (tokens < kept, count) == (True, 1), forged
    tampered = {**thought, "summary": [{"type": "summary_text", "text": "something else entirely, and longer"}]}
    assert replayed(server, tampered)[0] <= kept
