"""cases.md 23 to 25, 29, 31 and 36 on Messages, through a whole server: what a conversation comes to as a prompt, told
by its tokens and by what of it was cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.wire.asking import anthropic as ask_messages
from tests.wire.scripts import scripted

HI = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "Hello."}
LATE = {"role": "system", "content": "answer BLUE"}
RULES = "Be brief. " * 30
BILLING = "x-anthropic-billing-header: cc_version=2.1.197.{}; cc_entrypoint=sdk-cli;"
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    script = {"context_length": 8192, "rules": [{"pieces": ["The", " answer", "."]}]}
    with scripted(tmp_path_factory.mktemp("messages"), script) as client:
        yield client


def text(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} for one in texts]


def count(server: httpx2.Client, **body: Any) -> int:
    thinking = {"thinking": {"type": "adaptive"}}
    reply = server.post("/v1/messages/count_tokens", json={"model": "m", **thinking, **body})
    assert reply.status_code == 200, reply.text
    return reply.json()["input_tokens"]


def chat_count(server: httpx2.Client, *messages: dict[str, Any]) -> int:
    reply = server.post("/v1/chat/completions", json={"model": "m", "max_tokens": 1, "messages": list(messages)})
    assert reply.status_code == 200, reply.text
    return reply.json()["usage"]["prompt_tokens"]


def usage(server: httpx2.Client, stream: bool = False, **body: Any) -> dict[str, int]:
    said = ask_messages(server, {"thinking": {"type": "adaptive"}, **body}, stream)
    assert said.status == 200, said.error
    return said.frames[0]["message"]["usage"] if stream else said.frames[0]["usage"]


def prompt_of(used: dict[str, int]) -> int:
    return used["input_tokens"] + used["cache_creation_input_tokens"] + used["cache_read_input_tokens"]


def test_case_23_a_late_system_message_is_rendered_as_on_chat(server: httpx2.Client) -> None:
    talk = ({"role": "system", "content": RULES}, HI, SAID, LATE, HI)
    assert count(server, system=RULES, messages=[HI, SAID, LATE, HI]) == chat_count(server, *talk)
    assert count(server, messages=[HI, SAID, LATE, HI]) > count(server, messages=[HI, SAID, HI])


def test_case_24_instructions_are_one_system_block(server: httpx2.Client) -> None:
    """Developer is no role of this wire; a system message at the head joins the system prompt as it does elsewhere."""
    lead = {"role": "system", "content": "reply BANANA"}
    talk = ({"role": "system", "content": RULES}, {"role": "developer", "content": "reply BANANA"}, HI)
    assert count(server, system=RULES, messages=[lead, HI]) == chat_count(server, *talk)
    reply = server.post("/v1/messages/count_tokens", json={"messages": [{"role": "developer", "content": "x"}, HI]})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "messages[0].role" in reply.json()["error"]["message"]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_case_25_arrays_are_joined_in_order(server: httpx2.Client, role: str) -> None:
    def talk(content: Any) -> dict[str, Any]:
        use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}
        return {
            "system": {"system": content, "messages": [HI]},
            "user": {"messages": [{"role": "user", "content": content}]},
            "assistant": {"messages": [HI, {"role": "assistant", "content": content}, HI]},
            "tool": {"messages": [HI, use, result]},
        }[role]

    whole = count(server, **talk("one two three"))
    assert count(server, **talk(text("one two three"))) == whole
    assert count(server, **talk(text("one ", "two ", "three"))) == whole
    assert count(server, **talk(text("one ", "two "))) < whole


def test_case_29_a_billing_header_costs_no_prefix(server: httpx2.Client) -> None:
    def system(build: str) -> list[dict[str, Any]]:
        return text(BILLING.format(build), RULES)

    first = usage(server, system=system("aaaaa"), messages=[HI])
    second = usage(server, system=system("bbbbb"), messages=[HI])
    assert prompt_of(first) == prompt_of(second) == count(server, system=RULES, messages=[HI])
    assert second["cache_read_input_tokens"] >= 0.95 * prompt_of(second)
    user = {"role": "user", "content": BILLING.format("aaaaa")}
    assert count(server, messages=[user]) > count(server, messages=[HI])


@pytest.mark.parametrize("late", [LATE, {**LATE, "content": text("remember the milk", "and the bread")}])
def test_case_31_late_reminders_keep_the_prefix(server: httpx2.Client, late: dict[str, Any]) -> None:
    head = {"system": RULES + str(late), "tools": [{"name": "look", "input_schema": {"type": "object"}}]}
    talk = [HI, late]
    before = usage(server, **head, messages=talk)
    for _ in range(3):
        talk = [*talk, {"role": "assistant", "content": "The answer."}, HI, late]
        after = usage(server, **head, messages=talk)
        assert after["cache_read_input_tokens"] >= 0.95 * prompt_of(before)
        before = after


@STREAMS
def test_case_36_counts_agree(server: httpx2.Client, stream: bool) -> None:
    body = {
        "system": RULES,
        "tools": [{"name": "look", "input_schema": {"type": "object"}}, {"type": "bash_20250124", "name": "bash"}],
        "messages": [HI, SAID, LATE, {"role": "user", "content": text("a", "b")}],
    }
    used = usage(server, stream, **body)
    assert prompt_of(used) == count(server, **body) > 0


def test_case_36_counts_agree_where_a_form_is_put_into_words(tmp_path_factory: pytest.TempPathFactory) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    body = {"messages": [HI], "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    script = {"rules": [{"pieces": ['{"a": 1}']}]}
    with scripted(tmp_path_factory.mktemp("words"), script, grammar_degrade=True) as client:
        assert prompt_of(usage(client, **body)) == count(client, **body) > count(client, messages=[HI])


@pytest.mark.parametrize("last", ["The", [{"type": "text", "text": "The"}]])
def test_a_last_turn_is_continued(server: httpx2.Client, last: Any) -> None:
    turn = {"role": "assistant", "content": last}
    talk = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "The"})
    asked = {"messages": list(talk), "max_tokens": 1, "add_generation_prompt": False, "continue_final_message": True}
    counted = server.post("/v1/chat/completions", json={"model": "m", **asked}).json()["usage"]["prompt_tokens"]
    assert count(server, messages=[HI, turn]) == counted
    said = ask_messages(server, {"messages": [HI, turn]}, False)
    assert (said.status, said.text) == (200, "The answer.")
    refused = ask_messages(server, {"messages": [HI, {"role": "assistant", "content": "The "}]}, False)
    assert refused.status == 400
    assert "trailing whitespace" in (refused.error or "")
