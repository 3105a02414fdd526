"""Messages requests, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import InvalidField, InvalidJSON, InvalidRequest, MissingField, UnsupportedField
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.messages import MediaPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.operations import CountRequest
from dragoman.core.request import ChatInput, OutputFormat, Request, Thinking
from dragoman.core.sampling import SamplingSpec
from dragoman.core.signatures import UNSIGNED, Signatures
from dragoman.core.tools import Tool, ToolChoice
from dragoman.core.usage import Usage
from dragoman.dialects.anthropic.endpoints import DIALECT
from dragoman.dialects.anthropic.read import read_count, read_messages
from dragoman.dialects.base import GenerateCall, StaticCall
from tests.dialects.answers import CONTEXT
from tests.dialects.wire import captures, post

PATH = "/v1/messages"
SIGNER = Signatures(b"k" * 32).signer("m")
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
LOOK = {"name": "look", "description": "d", "input_schema": {"type": "object"}}


def call(headers: dict[str, str] | None = None, **body: Any) -> GenerateCall:
    return read_messages(post(PATH, {"messages": HI, "max_tokens": 10} | body, headers))


def request(**body: Any) -> Request:
    [found] = call(**body).requests
    return found


def chat(**body: Any) -> ChatInput:
    found = request(**body).input
    assert isinstance(found, ChatInput)
    return found


def turns(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return chat(messages=list(messages)).messages


def test_smallest_request() -> None:
    found = call()
    [read] = found.requests
    assert read == Request(
        input=ChatInput(messages=(Message("user", (TextPart("hi"),)),), thinking=Thinking("off")), max_tokens=10
    )
    assert (found.stream, found.ignored) == (False, ())


@pytest.mark.parametrize("name", captures(PATH))
def test_recorded_agents_are_read(name: str) -> None:
    found = read_messages(captures(PATH)[name])
    assert found.ignored == ()
    assert found.stream


def test_claude_code_first_turn() -> None:
    wire = captures(PATH)["claude-code-02"]
    read = read_messages(wire).requests[0]
    assert isinstance(read.input, ChatInput)
    assert [turn.role for turn in read.input.messages] == ["system", "user", "system"]
    system = read.input.messages[0].parts
    assert len(system) == 3
    assert isinstance(system[0], TextPart)
    assert system[0].text.startswith("x-anthropic-billing-header:")
    assert read.input.thinking == Thinking("on", "high", preserve=True)
    assert read.cache.session == "00000000-0000-4000-8000-000000000034"
    assert read.max_tokens == 32000
    assert len(read.input.tools) == len(json.loads(wire.body)["tools"])


def test_claude_code_second_turn_splits_results() -> None:
    read = read_messages(captures(PATH)["claude-code-08"]).requests[0]
    assert isinstance(read.input, ChatInput)
    last = read.input.messages[-1]
    assert last == Message("tool", (ToolResultPart("toolu_1", (TextPart("hi"),)),))


@pytest.mark.parametrize(
    ("body", "spec"),
    [
        ({"temperature": 0}, SamplingSpec(temperature=0.0)),
        ({"temperature": 1, "top_p": 0.5, "top_k": 5}, SamplingSpec(temperature=1.0, top_p=0.5, top_k=5)),
        ({"min_p": 0.1, "repetition_penalty": 1.1}, SamplingSpec(min_p=0.1, repetition_penalty=1.1)),
        ({"repetition_penalty": 0}, SamplingSpec(repetition_penalty=1.0)),
        ({"presence_penalty": 1, "frequency_penalty": -1}, SamplingSpec(presence_penalty=1.0, frequency_penalty=-1.0)),
        ({"seed": 3}, SamplingSpec(seed=3)),
        ({"seed": -1}, SamplingSpec()),
    ],
)
def test_sampling(body: dict[str, Any], spec: SamplingSpec) -> None:
    assert request(**body).sampling == spec


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"temperature": 1.1}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"seed": 2**64}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
        ({"system": [{"type": "tool_use"}]}, "system[0].type"),
        ({"stop_sequences": ["x"] * 65}, "stop_sequences"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1024}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}, "max_tokens": 9999}, "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": "loud"}}, "thinking.display"),
        ({"service_tier": "gold"}, "service_tier"),
        ({"speed": "warp"}, "speed"),
        ({"inference_geo": 5}, "inference_geo"),
        ({"container": 5}, "container"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"cache_control": {"type": "eternal"}}, "cache_control.type"),
        ({"tools": [LOOK, LOOK]}, "tools[1].name"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"tools": [LOOK], "tool_choice": {"type": "tool", "name": "nope"}}, "tool_choice.name"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "x"}}]}]},
            "messages[0].content[0].source.type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "document", "source": {"type": "content", "content": [{"type": "document"}]}}
                        ],
                    }
                ]
            },
            "messages[0].content[0].source.content[0].type",
        ),
    ],
)
def test_bad_values_name_their_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        call(**body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]},
            "messages[0].content[0].name",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].source"),
        ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [LOOK], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ],
)
def test_missing_fields_are_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(MissingField) as caught:
        call(**body)
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["messages", "max_tokens"])
def test_required_fields(field: str) -> None:
    body = {"messages": HI, "max_tokens": 5}
    del body[field]
    with pytest.raises(MissingField) as caught:
        read_messages(post(PATH, body))
    assert caught.value.field == field


def test_broken_json() -> None:
    with pytest.raises(InvalidJSON):
        read_messages(post(PATH, b"{"))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"compaction": {"type": "summarize"}}, "compaction"),
        ({"thread": {"type": "create"}}, "thread"),
        ({"messages": [{"role": "user", "content": [{"type": "compaction"}]}]}, "messages[0].content[0].type"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}
                ]
            },
            "messages[0].content[0].source.type",
        ),
    ],
)
def test_known_fields_that_cannot_be_honoured(body: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        call(**body)
    assert caught.value.field == field


def test_fields_that_change_nothing_are_silent() -> None:
    found = call(
        metadata={},
        service_tier="auto",
        context_management={"edits": []},
        betas=["x"],
        cache_control={"type": "ephemeral", "ttl": "1h"},
        container=None,
        mcp_servers=[],
        inference_geo="eu",
        speed="fast",
        diagnostics={},
        fallbacks="default",
    )
    assert found.ignored == ()
    assert found.requests == call().requests


def test_unknown_fields_and_hosted_tools_are_listed() -> None:
    found = call(
        zebra=1,
        tools=[{"type": "web_search_20250305", "name": "web_search"}, LOOK],
        mcp_servers=[{"type": "url", "name": "x", "url": "y"}],
        output_config={"task_budget": {"type": "tokens", "total": 5}},
    )
    assert found.ignored == ("zebra", "tools[0]", "mcp_servers", "output_config.task_budget")
    assert isinstance(found.requests[0].input, ChatInput)
    assert found.requests[0].input.tools == (Tool("look", "d", {"type": "object"}, field="tools[1].input_schema"),)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, Thinking("off")),
        ({"thinking": {"type": "disabled"}}, Thinking("off")),
        ({"thinking": {"type": "adaptive"}}, Thinking("on")),
        ({"thinking": {"type": "between_tools"}}, Thinking("on")),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1025}, Thinking("on", None, 1024)),
        ({"thinking": {"type": "adaptive", "budget_tokens": 8}}, Thinking("on")),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Thinking("on")),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "none"}}, Thinking("off", "none")),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, Thinking("on", "max")),
    ],
)
def test_thinking(body: dict[str, Any], wanted: Thinking) -> None:
    assert chat(**body).thinking == wanted


def test_interleaved_thoughts_may_have_a_larger_budget() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2048}
    found = call({"anthropic-beta": "x,interleaved-thinking-2025-05-14"}, thinking=thinking, max_tokens=1024)
    assert isinstance(found.requests[0].input, ChatInput)
    assert found.requests[0].input.thinking.budget == 2048


@pytest.mark.parametrize(("beta", "wanted"), [("", {}), ("x, fine-grained-tool-streaming-2025-05-14", {"place": "Os"})])
def test_who_asked_for_fragments_gets_a_cut_string(beta: str, wanted: dict[str, str]) -> None:
    cut = AnswerPart("tool_call", '{"place": "Os', "c", "look")
    choice = Choice(index=0, parts=(cut,), finish=Finish(FinishReason.LENGTH), usage=Usage(1, 1))
    body = call({"anthropic-beta": beta}).writer(CONTEXT).whole(Answer((choice,)))
    assert json.loads(body)["content"][0]["input"] == wanted


@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_output_format(name: str) -> None:
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    body = {"output_config": {"format": wanted}} if name == "output_config" else {"output_format": wanted}
    field = "output_config.format.schema" if name == "output_config" else "output_format.schema"
    assert request(**body).format == OutputFormat("json_schema", '{"type":"object"}', field, strict=True)


def test_two_output_formats_that_differ() -> None:
    one, other = ({"type": "json_schema", "schema": {"type": kind}} for kind in ("object", "array"))
    assert request(output_config={"format": one}, output_format=one).format is not None
    with pytest.raises(InvalidRequest, match=r"output_config.format.schema.*output_format.schema"):
        call(output_config={"format": one}, output_format=other)


@pytest.mark.parametrize(
    ("choice", "wanted", "parallel"),
    [
        (None, ToolChoice(), True),
        ({"type": "auto"}, ToolChoice(), True),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(), False),
        ({"type": "none"}, ToolChoice("none"), True),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required"), False),
        ({"type": "tool", "name": "look"}, ToolChoice("named", ("look",)), True),
    ],
)
def test_tool_choices(choice: Any, wanted: ToolChoice, parallel: bool) -> None:
    found = chat(tools=[LOOK], tool_choice=choice)
    assert (found.tool_choice, found.parallel_tool_calls) == (wanted, parallel)


@pytest.mark.parametrize(
    ("headers", "metadata", "session"),
    [
        ({}, None, None),
        ({"x-claude-code-session-id": "h"}, {"user_id": "u"}, "h"),
        ({}, {"user_id": '{"session_id":"s"}'}, "s"),
        ({}, {"user_id": '{"session_id":5}'}, '{"session_id":5}'),
        ({}, {"user_id": "{broken"}, "{broken"),
        ({}, {"user_id": "u"}, "u"),
        ({}, {"user_id": ""}, None),
    ],
)
def test_sessions(headers: dict[str, str], metadata: Any, session: str | None) -> None:
    assert call(headers, metadata=metadata).requests[0].cache.session == session


def test_stops_and_model() -> None:
    found = request(stop_sequences=["a", "", "b"], model="tiny")
    assert (found.stop, found.model) == (("a", "b"), "tiny")


# --- messages


@pytest.mark.parametrize("content", ["x", [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]])
def test_strings_and_blocks_read_alike(content: Any) -> None:
    assert turns({"role": "user", "content": content}) == (Message("user", (TextPart("x"),)),)


@pytest.mark.parametrize("system", ["rules", [{"type": "text", "text": "rules"}]])
def test_system(system: Any) -> None:
    assert chat(system=system).messages[0] == Message("system", (TextPart("rules"),))


@pytest.mark.parametrize("system", [None, "", []])
def test_no_system(system: Any) -> None:
    assert chat(system=system).messages[0].role == "user"


def test_case_23_system_in_the_middle_stays_in_place() -> None:
    found = turns(
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "system", "content": "answer BLUE"},
        {"role": "user", "content": "c"},
    )
    assert found[2] == Message("system", (TextPart("answer BLUE"),))


def test_case_9_assistant_turn_with_a_call_only() -> None:
    found = turns(
        *HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {"b": 1, "a": 2}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": ""}]},
    )
    assert found[1:] == (
        Message("assistant", (ToolCallPart("t", "look", '{"b":1,"a":2}'),)),
        Message("tool", (ToolResultPart("t", ()),)),
    )


def test_results_become_tool_messages_in_their_place() -> None:
    found = turns(
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "2"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    ],
                },
                {"type": "text", "text": "go on"},
                {"type": "tool_result", "tool_use_id": "c"},
            ],
        }
    )
    assert found == (
        Message("tool", (ToolResultPart("a", (TextPart("1"),)),)),
        Message(
            "tool", (ToolResultPart("b", (TextPart("2"), MediaPart("image", "AA==", "image/png")), is_error=True),)
        ),
        Message("user", (TextPart("go on"),)),
        Message("tool", (ToolResultPart("c", ()),)),
    )


def test_only_thoughts_signed_for_this_wire_may_be_believed() -> None:
    ours, carrying, other = (SIGNER.sign(kind, "hm") for kind in ("thinking", "thinkingc", "reasoning"))
    found = turns(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ours},
                {"type": "thinking", "thinking": "", "signature": carrying},
                {"type": "redacted_thinking", "data": carrying},
                {"type": "thinking", "thinking": "hm"},
                {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBBgC"},
                {"type": "thinking", "thinking": "", "signature": other},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "ok"},
            ],
        },
        {"role": "user", "content": "next"},
    )
    assert found[0].parts == (
        ReasoningPart("hm", ours),
        ReasoningPart("", carrying),
        ReasoningPart("", carrying),
        ReasoningPart("hm", UNSIGNED),
        ReasoningPart("hm", UNSIGNED),
        ReasoningPart("", UNSIGNED),
        ReasoningPart("", UNSIGNED),
        TextPart("ok"),
    )


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (
            {"type": "document", "title": "T", "context": "C", "source": {"type": "text", "data": "body"}},
            (TextPart("T\nC\n"), TextPart("body")),
        ),
        ({"type": "document", "source": {"type": "content", "content": "x"}}, (TextPart("x"),)),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
            (MediaPart("document", "AA", "application/pdf"),),
        ),
        ({"type": "document", "source": {"type": "url", "url": "u"}}, (MediaPart("document", "u"),)),
        ({"type": "image", "source": {"type": "url", "url": "u"}}, (MediaPart("image", "u"),)),
        (
            {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "x"}]},
            (TextPart("T\nS\n"), TextPart("x")),
        ),
        ({"type": "tool_reference", "tool_name": "look"}, (TextPart("look"),)),
    ],
)
def test_blocks(block: dict[str, Any], parts: tuple[Any, ...]) -> None:
    assert turns({"role": "user", "content": [block]})[0].parts == parts


@pytest.mark.parametrize(
    ("last", "continues"),
    [
        ({"role": "assistant", "content": "The"}, True),
        ({"role": "assistant", "content": ""}, False),
        ({"role": "assistant", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}, True),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}]}, False),
        ({"role": "user", "content": "x"}, False),
    ],
)
def test_prefill(last: dict[str, Any], continues: bool) -> None:
    found = chat(messages=[*HI, last])
    assert (found.continue_final, found.add_generation_prompt) == (continues, not continues)


@pytest.mark.parametrize("text", ["The ", "The\n", " "])
def test_a_prefill_must_not_end_in_white_space(text: str) -> None:
    with pytest.raises(InvalidField, match="trailing whitespace"):
        turns(*HI, {"role": "assistant", "content": text})
    assert turns(*HI, {"role": "assistant", "content": text}, *HI)


def test_empty_turns_are_kept() -> None:
    assert turns(*HI, {"role": "assistant", "content": []}, *HI)[1] == Message("assistant", ())


def test_nested_beyond_reason_is_refused() -> None:
    block: dict[str, Any] = {"type": "text", "text": "x"}
    for _ in range(400):
        block = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    with pytest.raises(InvalidRequest):
        turns({"role": "user", "content": [block]})


# --- count_tokens and the table


def test_case_36_counting_reads_the_same_prompt() -> None:
    body = {"messages": HI, "system": "s", "tools": [LOOK], "max_tokens": 5, "model": "m", "zebra": 1}
    counted = read_count(post(f"{PATH}/count_tokens", body))
    assert isinstance(counted.request, CountRequest)
    generated = read_messages(post(PATH, body)).requests[0]
    assert counted.request.request.input == generated.input
    assert counted.request.request.model == "m"
    assert counted.ignored == ("zebra",)


def test_counting_needs_no_limit() -> None:
    assert isinstance(read_count(post(f"{PATH}/count_tokens", {"messages": HI})).request, CountRequest)


def test_recorded_agents_can_be_counted() -> None:
    for wire in captures(PATH).values():
        read_count(wire)


def test_endpoints() -> None:
    rows = {(row.method, row.path): row for row in DIALECT.endpoints}
    assert {("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens"), ("HEAD", "/"), ("GET", "/")} <= set(rows)
    root = rows["HEAD", "/"]
    assert root.public
    assert isinstance(root.read(post("/", b"")), StaticCall)
    assert (DIALECT.request_id_header, DIALECT.request_id_prefix) == ("request-id", "req_")
