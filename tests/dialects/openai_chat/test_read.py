"""Chat Completions requests, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.errors import InvalidField, InvalidJSON, InvalidRequest, MissingField, UnsupportedField
from dragoman.core.messages import MediaPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput, GrammarTrigger, OutputFormat, Request, Thinking
from dragoman.core.sampling import SamplingSpec
from dragoman.core.tools import Tool, ToolChoice
from dragoman.dialects.base import GenerateCall
from dragoman.dialects.openai_chat.endpoints import DIALECT
from dragoman.dialects.openai_chat.read import read_chat
from tests.dialects.wire import captures, post

PATH = "/v1/chat/completions"
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
LOOK = {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}
SAVE = {"type": "function", "function": {"name": "save", "strict": True}}


def call(headers: dict[str, str] | None = None, **body: Any) -> GenerateCall:
    return read_chat(post(PATH, {"messages": HI} | body, headers))


def request(**body: Any) -> Request:
    [found] = call(**body).requests
    return found


def chat(**body: Any) -> ChatInput:
    found = request(**body).input
    assert isinstance(found, ChatInput)
    return found


def test_smallest_request_leaves_everything_unset() -> None:
    found = call()
    assert found.requests == (Request(input=ChatInput(messages=(Message("user", (TextPart("hi"),)),))),)
    assert (found.stream, found.ignored) == (False, ())


@pytest.mark.parametrize("name", captures(PATH))
def test_recorded_agents_are_read(name: str) -> None:
    found = read_chat(captures(PATH)[name])
    assert found.ignored == ()
    [read] = found.requests
    assert isinstance(read.input, ChatInput)
    assert read.input.messages


def test_captures_cover_the_agents() -> None:
    clients = {name.rsplit("-", 1)[0] for name in captures(PATH)}
    assert clients == {"aider", "aiperf", "cline", "continue-cli", "guidellm", "llm", "lm-eval", "opencode", "pi"}


def test_opencode_session_and_tools() -> None:
    wire = captures(PATH)["opencode-03"]
    found = read_chat(wire)
    assert found.requests[0].cache.session == wire.headers["x-session-affinity"]
    assert found.requests[0].max_tokens == 32000


@pytest.mark.parametrize(
    ("body", "spec"),
    [
        ({"temperature": 0}, SamplingSpec(temperature=0.0)),
        ({"top_p": 0.5, "top_k": 40}, SamplingSpec(top_p=0.5, top_k=40)),
        ({"top_k": -1}, SamplingSpec(top_k=0)),
        ({"min_p": 0.05}, SamplingSpec(min_p=0.05)),
        ({"typical_p": 0.9}, SamplingSpec(typical_p=0.9)),
        ({"typ_p": 0.9}, SamplingSpec(typical_p=0.9)),
        ({"repetition_penalty": 1.1}, SamplingSpec(repetition_penalty=1.1)),
        ({"repeat_penalty": 1.1}, SamplingSpec(repetition_penalty=1.1)),
        ({"repetition_penalty": 0}, SamplingSpec(repetition_penalty=1.0)),
        ({"repetition_context_size": 20}, SamplingSpec(penalty_window=20)),
        ({"repetition_context_size": 0}, SamplingSpec(penalty_window=-1)),
        ({"repeat_last_n": 0}, SamplingSpec(penalty_window=0)),
        ({"repeat_last_n": -1}, SamplingSpec(penalty_window=-1)),
        ({"presence_context_size": 8, "frequency_context_size": 8}, SamplingSpec(penalty_window=8)),
        ({"presence_penalty": -2, "frequency_penalty": 2}, SamplingSpec(presence_penalty=-2.0, frequency_penalty=2.0)),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.1}, SamplingSpec(xtc_probability=0.5, xtc_threshold=0.1)),
        ({"dry_multiplier": 0.8, "dry_base": 1.75}, SamplingSpec(dry_multiplier=0.8, dry_base=1.75)),
        (
            {"dry_allowed_length": 2, "dry_penalty_last_n": -1},
            SamplingSpec(dry_allowed_length=2, dry_penalty_window=-1),
        ),
        ({"dry_sequence_breakers": ["\n"]}, SamplingSpec(dry_sequence_breakers=("\n",))),
        ({"min_tokens": 3, "ignore_eos": True}, SamplingSpec(min_tokens=3, ignore_eos=True)),
        ({"seed": 7}, SamplingSpec(seed=7)),
        ({"seed": -1}, SamplingSpec()),
        ({"seed": -2}, SamplingSpec(seed=2**64 - 2)),
        ({"logit_bias": {"42": -5, "7": 100}}, SamplingSpec(logit_bias={42: -5.0, 7: 100.0})),
        ({"temperature": None, "logit_bias": None, "seed": None}, SamplingSpec()),
    ],
)
def test_sampling(body: dict[str, Any], spec: SamplingSpec) -> None:
    assert request(**body).sampling == spec


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 2**31}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"frequency_penalty": -3}, "frequency_penalty"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        ({"repeat_last_n": -2}, "repeat_last_n"),
        ({"xtc_probability": 1.5}, "xtc_probability"),
        ({"seed": 2**64}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"logit_bias": {"a": 1}}, "logit_bias.a"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias." + "9" * 40),
        ({"logit_bias": {"-1": 1}}, "logit_bias.-1"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_completion_tokens": 0, "max_tokens": 5}, "max_completion_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"stop": [""] * 17}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"thinking_budget": -2}, "thinking_budget"),
        ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_json": "{"}, "guided_json"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"user": 5}, "user"),
        ({"metadata": "x"}, "metadata"),
        ({"tools": [LOOK], "tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tools": [LOOK], "tool_choice": {"type": "function", "function": {"name": "nope"}}},
            "tool_choice.function.name",
        ),
        ({"functions": [{"name": "look"}], "function_call": "must"}, "function_call"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [*HI, {"role": "user", "content": 5}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, "messages[0].content[0].type"),
    ],
)
def test_bad_values_name_their_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        call(**body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0].function"),
        ({"tools": [{"type": "function", "name": "flat"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
        ({"tools": [LOOK], "tool_choice": {"type": "function"}}, "tool_choice.function"),
    ],
)
def test_missing_fields_are_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(MissingField) as caught:
        call(**body)
    assert caught.value.field == field


def test_messages_are_required() -> None:
    with pytest.raises(MissingField, match="'messages' is required"):
        read_chat(post(PATH, {"model": "m"}))


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[1", b'{"a":' * 5000])
def test_broken_json(raw: bytes) -> None:
    with pytest.raises(InvalidJSON):
        read_chat(post(PATH, raw))


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"x"', b"1"])
def test_json_that_is_no_object(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="JSON object"):
        read_chat(post(PATH, raw))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"adapter": "a+b"}, "adapter"),
        ({"chat_template": "{{ messages }}"}, "chat_template"),
        ({"stop_token_ids": [1]}, "stop_token_ids"),
        ({"skip_special_tokens": False}, "skip_special_tokens"),
        ({"repetition_context_size": 20, "presence_context_size": 30}, "presence_context_size"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
        ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages[0].audio"),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
            "messages[0].content[0].file.file_id",
        ),
    ],
)
def test_known_fields_that_cannot_be_honoured(body: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        call(**body)
    assert caught.value.field == field


def test_fields_that_change_nothing_are_silent() -> None:
    found = call(
        user="u",
        metadata={"a": "b"},
        store=True,
        service_tier="auto",
        safety_identifier="s",
        verbosity="low",
        prediction={"type": "content", "content": "x"},
        modalities=["text"],
        prompt_cache_retention="24h",
        adapter=None,
        skip_special_tokens=True,
        stream_options={"include_usage": True},
    )
    assert found.ignored == ()
    assert found.requests == call().requests


def test_unknown_fields_are_listed() -> None:
    assert call(zebra=1, apple=None).ignored == ("apple", "zebra")
    hosted = call(tools=[{"type": "web_search"}, LOOK], zebra=1)
    assert hosted.ignored == ("zebra", "tools[0]")


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": -1}, None),
        ({"n_predict": -1}, None),
        ({"max_completion_tokens": 5}, 5),
        ({"max_output_tokens": 5}, 5),
        ({"n_predict": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": None}, 9),
    ],
)
def test_case_27_limits_and_their_aliases(body: dict[str, Any], limit: int | None) -> None:
    assert request(**body).max_tokens == limit


@pytest.mark.parametrize(
    ("stop", "read"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        (None, ()),
        ("", ()),
        (["", "x"], ("x",)),
        ([str(i) for i in range(16)], tuple(map(str, range(16)))),
    ],
)
def test_case_18_stops(stop: Any, read: tuple[str, ...]) -> None:
    assert request(stop=stop).stop == read


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
        ({"logprobs": True, "top_logprobs": -1}, 0),
        ({"top_logprobs": -1}, None),
    ],
)
def test_logprobs(body: dict[str, Any], wanted: int | None) -> None:
    assert request(**body).logprobs == wanted


SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}
SCHEMA_TEXT = json.dumps(SCHEMA, separators=(",", ":"))


JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}
NESTED = "response_format.json_schema.schema"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, OutputFormat("json")),
        ({"response_format": JSON_SCHEMA}, OutputFormat("json_schema", SCHEMA_TEXT, NESTED, strict=True)),
        (
            {"response_format": {"type": "json_schema", "schema": SCHEMA}},
            OutputFormat("json_schema", SCHEMA_TEXT, "response_format.schema"),
        ),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            OutputFormat("json_schema", SCHEMA_TEXT, "response_format.schema"),
        ),
        ({"guided_json": SCHEMA}, OutputFormat("json_schema", SCHEMA_TEXT, "guided_json")),
        ({"guided_json": SCHEMA_TEXT}, OutputFormat("json_schema", SCHEMA_TEXT, "guided_json")),
        ({"guided_json": True}, OutputFormat("json_schema", "true", "guided_json")),
        ({"guided_regex": "[a-z]+"}, OutputFormat("regex", "[a-z]+", "guided_regex")),
        ({"guided_choice": ["yes", "no"]}, OutputFormat("choice", '["yes","no"]', "guided_choice")),
        ({"guided_grammar": 'root ::= "a"'}, OutputFormat("gbnf", 'root ::= "a"', "guided_grammar")),
        ({"guided_grammar": 'start: "::="'}, OutputFormat("lark", 'start: "::="', "guided_grammar")),
        ({"grammar": 'root ::= "a"'}, OutputFormat("gbnf", 'root ::= "a"', "grammar")),
        ({"grammar": 'root ::= "a"', "guided_decoding_backend": "x"}, OutputFormat("gbnf", 'root ::= "a"', "grammar")),
        ({"json_schema": SCHEMA}, OutputFormat("json_schema", SCHEMA_TEXT, "json_schema")),
        ({"structured_outputs": {"regex": "a+"}}, OutputFormat("regex", "a+", "structured_outputs.regex")),
        ({"structured_outputs": {"choice": ["a"]}}, OutputFormat("choice", '["a"]', "structured_outputs.choice")),
        ({"structured_outputs": {"json_object": True}}, OutputFormat("json", field="structured_outputs.json_object")),
        (
            {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}},
            OutputFormat("json_schema", SCHEMA_TEXT, "structured_outputs.json", whitespace=False),
        ),
        ({"structured_outputs": SCHEMA}, OutputFormat("json_schema", SCHEMA_TEXT, "structured_outputs")),
        ({"structured_outputs": {"disable_any_whitespace": True}}, None),
        (
            {"response_format": {"type": "json_object"}, "any_whitespace": False},
            OutputFormat("json", whitespace=False),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "any_whitespace": False}}},
            OutputFormat("json_schema", SCHEMA_TEXT, NESTED, whitespace=False),
        ),
        (
            {"grammar": 'root ::= "a"', "grammar_lazy": True, "grammar_triggers": [{"type": 1, "value": "a"}]},
            OutputFormat("gbnf", 'root ::= "a"', "grammar", triggers=(GrammarTrigger("word", "a"),)),
        ),
    ],
)
def test_case_14_output_formats(body: dict[str, Any], wanted: OutputFormat | None) -> None:
    assert request(**body).format == wanted


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"response_format": JSON_SCHEMA, "guided_json": SCHEMA}, NESTED),
        ({"response_format": {"type": "json_object"}, "guided_json": SCHEMA}, "guided_json"),
        ({"guided_json": SCHEMA, "response_format": {"type": "text"}}, "guided_json"),
        ({"structured_outputs": {"json": SCHEMA}, "json_schema": SCHEMA}, "json_schema"),
    ],
)
def test_the_same_constraint_twice_or_a_wider_one_is_no_contradiction(body: dict[str, Any], field: str) -> None:
    found = request(**body).format
    assert found is not None
    assert (found.text, found.field) == (SCHEMA_TEXT, field)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, ["response_format", "guided_regex"]),
        ({"guided_grammar": 'root ::= "a"', "guided_json": {}}, ["guided_grammar", "guided_json"]),
        ({"guided_choice": ["a"], "guided_regex": "a"}, ["guided_choice", "guided_regex"]),
        ({"guided_json": {}, "json_schema": SCHEMA}, ["guided_json", "json_schema"]),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, ["structured_outputs.regex", "choice"]),
    ],
)
def test_two_constraints_are_refused_by_both_names(body: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="Only one") as caught:
        call(**body)
    assert all(name in caught.value.message for name in named)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"response_format": {"type": "structural_tag"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, NESTED),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": "x"}}}, NESTED),
        ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"whitespace_pattern": " ?", "json": {}}}, "structured_outputs.whitespace_pattern"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"guided_json": "["}, "guided_json"),
        ({"guided_json": "5"}, "guided_json"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_whitespace_pattern": " ?"}, "guided_whitespace_pattern"),
        ({"grammar": 'root ::= "a"', "grammar_lazy": True}, "grammar_triggers"),
        (
            {"grammar": 'root ::= "a"', "grammar_lazy": True, "grammar_triggers": [{"type": 9, "value": "a"}]},
            "grammar_triggers[0]",
        ),
        (
            {"grammar": 'root ::= "a"', "grammar_lazy": True, "grammar_triggers": [{"type": "token", "value": "a"}]},
            "grammar_triggers[0].token",
        ),
        ({"preserved_tokens": ["<x>"]}, "preserved_tokens"),
    ],
)
def test_constraints_nobody_can_read_are_refused_by_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(**body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, Thinking()),
        ({"reasoning_effort": "none"}, Thinking("off", "none")),
        ({"reasoning_effort": "xhigh"}, Thinking("on", "xhigh")),
        ({"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high"}, Thinking("off", "high")),
        ({"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "none"}, Thinking("on", "none")),
        ({"thinking_budget": 0}, Thinking("auto", None, 0)),
        ({"enable_thinking": False}, Thinking("off")),
        ({"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": True}}, Thinking("on")),
        ({"reasoning": {"effort": "low", "max_tokens": 9}}, Thinking("on", "low", 9)),
        ({"reasoning": {"enabled": False}}, Thinking("off")),
    ],
)
def test_thinking(body: dict[str, Any], wanted: Thinking) -> None:
    assert chat(**body).thinking == wanted


def test_template_kwargs_pass_through() -> None:
    assert chat(chat_template_kwargs={"preserve_thinking": True}).template_kwargs == {"preserve_thinking": True}


def test_continuing_the_last_message() -> None:
    turns = [*HI, {"role": "assistant", "content": "The"}]
    found = chat(messages=turns, continue_final_message=True)
    assert (found.continue_final, found.add_generation_prompt) == (True, False)
    assert chat(messages=turns).continue_final is False
    assert chat(add_generation_prompt=False).add_generation_prompt is False
    with pytest.raises(InvalidField):
        chat(messages=turns, continue_final_message=True, add_generation_prompt=True)


@pytest.mark.parametrize(
    ("headers", "body", "session"),
    [
        ({}, {}, None),
        ({"x-session-affinity": "h"}, {}, "h"),
        ({"session_id": "h"}, {}, "h"),
        ({"x-session-affinity": "h"}, {"prompt_cache_key": "k"}, "k"),
        ({"x-session-affinity": "h"}, {"prompt_cache_key": "k", "session_id": "s"}, "s"),
    ],
)
def test_sessions(headers: dict[str, str], body: dict[str, Any], session: str | None) -> None:
    assert call(headers, **body).requests[0].cache.session == session


def test_cache_and_progress() -> None:
    assert request(cache_prompt=False).cache.reuse is False
    assert request(cache_prompt=True).cache.reuse is True
    assert request(return_progress=True, stream=True).progress is True
    assert request(return_progress=True).progress is False


def test_model_and_n() -> None:
    found = request(model="tiny", n=16)
    assert (found.model, found.n) == ("tiny", 16)


# --- messages


def messages(*turns: dict[str, Any]) -> tuple[Message, ...]:
    return chat(messages=list(turns)).messages


def test_case_24_developer_keeps_its_role() -> None:
    assert messages({"role": "developer", "content": "reply BANANA"})[0] == Message(
        "developer", (TextPart("reply BANANA"),)
    )


def test_case_23_late_system_stays_in_place() -> None:
    turns = messages(
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "system", "content": "answer BLUE"},
        {"role": "user", "content": "d"},
    )
    assert [(turn.role, turn.text) for turn in turns][3] == ("system", "answer BLUE")


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_case_25_content_arrays_keep_all_parts(role: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]
    [turn] = messages({"role": role, "content": parts})
    assert turn.parts == (TextPart("a"), TextPart("b"))


def test_one_text_part_reads_like_a_string() -> None:
    assert messages({"role": "user", "content": [{"type": "text", "text": "x"}]}) == messages(
        {"role": "user", "content": "x"}
    )


CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"place": "Oslo"}'}}


@pytest.mark.parametrize("extra", [{"content": None}, {"content": ""}, {}, {"content": []}])
def test_case_9_empty_assistant_text_keeps_its_calls(extra: dict[str, Any]) -> None:
    turns = messages(
        *HI,
        {"role": "assistant", "tool_calls": [CALL]} | extra,
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
    )
    assert turns[1:] == (
        Message("assistant", (ToolCallPart("call_1", "look", '{"place": "Oslo"}'),)),
        Message("tool", (ToolResultPart("call_1", ()),)),
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"a": 1}', '{"a": 1}'), ("not json", "not json"), ({"a": 1}, '{"a":1}'), (None, "{}"), ("", "")],
)
def test_case_8_arguments_are_kept_as_sent(arguments: Any, text: str) -> None:
    function = {"name": "look", "arguments": arguments}
    [turn] = messages({"role": "assistant", "tool_calls": [{"id": "a", "function": function}]})
    assert turn.parts == (ToolCallPart("a", "look", text),)


def test_assistant_parts_are_ordered() -> None:
    [turn] = messages(
        {
            "role": "assistant",
            "content": "text",
            "reasoning": "thought",
            "refusal": "no",
            "tool_calls": [CALL],
            "name": "bot",
        }
    )
    assert [type(part) for part in turn.parts] == [ReasoningPart, TextPart, TextPart, ToolCallPart]
    assert turn.name == "bot"


def test_reasoning_content_wins_even_when_empty() -> None:
    [turn] = messages({"role": "assistant", "content": "x", "reasoning": "old", "reasoning_content": ""})
    assert turn.parts == (TextPart("x"),)


def test_legacy_function_turns() -> None:
    turns = messages(
        *HI,
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "sunny"},
    )
    assert turns[1].parts == (ToolCallPart("call_1", "look", "{}"),)
    assert turns[2] == Message("tool", (ToolResultPart("call_1", (TextPart("sunny"),), "look"),))


@pytest.mark.parametrize(
    ("part", "read"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            MediaPart("image", "data:image/png;base64,AA=="),
        ),
        ({"type": "image_url", "image_url": "http://x/y.png"}, MediaPart("image", "http://x/y.png")),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            MediaPart("audio", "AA==", "audio/wav"),
        ),
        ({"type": "video_url", "video_url": {"url": "u"}}, MediaPart("video", "u")),
        ({"type": "file", "file": {"file_data": "data:x", "filename": "n"}}, MediaPart("document", "data:x")),
        ({"type": "refusal", "refusal": "no"}, TextPart("no")),
    ],
)
def test_content_parts(part: dict[str, Any], read: Any) -> None:
    assert messages({"role": "user", "content": [part]})[0].parts == (read,)


# --- tools

LOOK_TOOL = Tool("look", "d", {"type": "object"}, field="tools[0].function.parameters")
SAVE_TOOL = Tool("save", None, None, True, "tools[1].function.parameters")
OLD_TOOL = Tool("look", "d", {"type": "object"}, field="functions[0].parameters")


@pytest.mark.parametrize(
    ("choice", "tools", "wanted"),
    [
        (None, (LOOK_TOOL, SAVE_TOOL), ToolChoice()),
        ("auto", (LOOK_TOOL, SAVE_TOOL), ToolChoice()),
        ("none", (LOOK_TOOL, SAVE_TOOL), ToolChoice("none")),
        ("required", (LOOK_TOOL, SAVE_TOOL), ToolChoice("required")),
        ({"type": "function", "function": {"name": "save"}}, (LOOK_TOOL, SAVE_TOOL), ToolChoice("named", ("save",))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [SAVE]}},
            (SAVE_TOOL,),
            ToolChoice(),
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [SAVE, LOOK]}},
            (LOOK_TOOL, SAVE_TOOL),
            ToolChoice("named", ("save", "look")),
        ),
    ],
)
def test_case_12_tool_choices(choice: Any, tools: tuple[Tool, ...], wanted: ToolChoice) -> None:
    found = chat(tools=[LOOK, SAVE], tool_choice=choice, parallel_tool_calls=False)
    assert (found.tools, found.tool_choice, found.parallel_tool_calls) == (tools, wanted, False)


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_choices_without_tools(choice: Any) -> None:
    assert chat(tool_choice=choice, tools=[]).tools == ()


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (None, ToolChoice()),
        ("none", ToolChoice("none")),
        ({"name": "look"}, ToolChoice("named", ("look",), "function_call")),
    ],
)
def test_legacy_functions(choice: Any, wanted: ToolChoice) -> None:
    found = chat(functions=[LOOK["function"]], function_call=choice)
    assert (found.tools, found.tool_choice, found.parallel_tool_calls) == ((OLD_TOOL,), wanted, False)


def test_functions_and_tools_exclude_each_other() -> None:
    with pytest.raises(InvalidRequest, match="exclude each other"):
        call(functions=[LOOK["function"]], tools=[LOOK])


def test_endpoints() -> None:
    paths = [row.path for row in DIALECT.endpoints if row.body is not None]
    assert paths == ["/v1/chat/completions", "/chat/completions"]
    assert not any(row.public for row in DIALECT.endpoints)
