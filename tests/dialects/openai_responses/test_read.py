"""Responses requests -> core: items, tools, choices, fields, and what is refused by name."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.core.errors import DragomanError, InvalidField, InvalidRequest, MissingField, NotFound, UnsupportedField
from dragoman.core.messages import MediaPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput, OutputFormat, Request, Thinking
from dragoman.core.responses import LoadedFile, Recalled
from dragoman.core.signatures import UNSIGNED, Signatures
from dragoman.dialects.base import ResponseCall
from dragoman.dialects.openai_responses.compat import agent_of
from dragoman.dialects.openai_responses.ids import input_id, new_response_id, output_id, response_of
from dragoman.dialects.openai_responses.names import ToolName
from dragoman.dialects.openai_responses.read import read_count, read_response
from tests.dialects.wire import post

DATA = Path(__file__).parent / "data"
SIGNED = Signatures(b"k" * 32).sign("reasoning", "so", model="m")
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch", "description": "Edits.", "format": {"type": "grammar", "syntax": "lark"}}
PATCH["format"] = {**PATCH["format"], "definition": 'start: "a"'}  # type: ignore[dict-item]
SPACE = {"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "inner"}]}
HOSTED = {"type": "web_search"}


def call(headers: dict[str, str] | None = None, **body: Any) -> ResponseCall:
    return read_response(post("/v1/responses", {"input": "hi", **body}, headers))


def request(recalled: Recalled | None = None, **body: Any) -> Request:
    return call(**body).build(recalled or Recalled()).request


def chat(recalled: Recalled | None = None, **body: Any) -> ChatInput:
    found = request(recalled, **body).input
    assert isinstance(found, ChatInput)
    return found


def messages(*items: Any, recalled: Recalled | None = None, **body: Any) -> tuple[Message, ...]:
    return chat(recalled, input=list(items), **body).messages


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def test_a_string_is_a_user_message() -> None:
    assert chat().messages == (user("hi"),)


def test_instructions_come_first_and_developer_stays() -> None:
    found = messages({"role": "developer", "content": "d"}, {"role": "user", "content": "u"}, instructions="i")
    assert [(message.role, message.text) for message in found] == [("system", "i"), ("developer", "d"), ("user", "u")]


def test_messages_in_every_form() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    answer = [{"type": "output_text", "text": "c"}, {"type": "refusal", "refusal": "d"}]
    found = messages(
        {"role": "user", "content": parts},
        {"type": "message", "role": "assistant", "content": answer, "phase": "commentary"},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]},
    )
    assert found == (
        Message("user", (TextPart("a"), TextPart("b"))),
        Message("assistant", (TextPart("c"), TextPart("d"))),
        Message("user", (MediaPart("image", "data:x"),)),
    )


def test_one_turn_of_the_model_is_one_message() -> None:
    found = messages(
        {"role": "user", "content": "go"},
        {"type": "reasoning", "summary": [], "encrypted_content": SIGNED},
        {"role": "assistant", "content": "look"},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "2", "name": "patch", "input": 'a"b'},
        {"type": "function_call", "call_id": "3", "name": "inner", "namespace": "ns", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
        {
            "type": "custom_tool_call_output",
            "call_id": "2",
            "output": [{"type": "input_text", "text": "y"}, {"type": "input_text", "text": "z"}],
        },
    )
    assert found == (
        user("go"),
        Message(
            "assistant",
            (
                ReasoningPart("", SIGNED),
                TextPart("look"),
                ToolCallPart("1", "look", "{}"),
                ToolCallPart("2", "patch", '{"input":"a\\"b"}'),
                ToolCallPart("3", "ns.inner", "{}"),
            ),
        ),
        Message("tool", (ToolResultPart("1", (TextPart("x"),)),)),
        Message("tool", (ToolResultPart("2", (TextPart("y"), TextPart("z"))),)),
    )


@pytest.mark.parametrize("content", ["", None, []])
def test_case_9_empty_assistant_text_is_kept_with_its_call(content: Any) -> None:
    found = messages(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": content},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": ""},
    )
    assert found[1:] == (
        Message("assistant", (ToolCallPart("1", "look", "{}"),)),
        Message("tool", (ToolResultPart("1", ()),)),
    )


@pytest.mark.parametrize(
    "given",
    [
        None,
        "nonsense",
        Signatures(b"k" * 32).sign("thinking", "so", model="m"),
        Signatures(b"k" * 32).sign("thinkingc", "so", model="m"),
    ],
)
def test_thoughts_count_only_with_a_signature_of_this_wire(given: str | None) -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "forged"}], "encrypted_content": given}
    found = messages(item, {"role": "assistant", "content": "x"})
    assert found[0].parts[0] == ReasoningPart("", UNSIGNED)


def test_a_thought_that_led_to_nothing_is_not_believed() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": SIGNED}
    found = messages({"role": "user", "content": "a"}, item, {"role": "user", "content": "b"})
    assert found[1] == Message("assistant", (ReasoningPart("", UNSIGNED),))


def test_files() -> None:
    data = base64.b64encode(b"one\ntwo").decode()
    parts = [
        {"type": "input_file", "filename": "a<b.txt", "file_data": f"data:text/plain;base64,{data}"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_file", "filename": "x.pdf", "file_data": base64.b64encode(b"%PDF\xff\0").decode()},
    ]
    recalled = Recalled(files={"file-1": LoadedFile("n.md", "text/markdown", b"# x")})
    [message] = messages({"role": "user", "content": parts}, recalled=recalled)
    assert message.parts[:2] == (
        TextPart('<file name="a&lt;b.txt">\none\ntwo\n</file>'),
        TextPart('<file name="n.md">\n# x\n</file>'),
    )
    assert isinstance(message.parts[2], MediaPart)
    assert call(input=[{"role": "user", "content": parts}]).plan.files == ("file-1",)


def test_tools() -> None:
    found = call(tools=[FUNCTION, PATCH, SPACE, HOSTED])
    tools = chat(tools=[FUNCTION, PATCH, SPACE, HOSTED]).tools
    assert [tool.name for tool in tools] == ["look", "patch", "ns.inner"]
    assert tools[1].description == 'Edits.\n\nThe input is a text of this lark grammar:\nstart: "a"'
    assert tools[1].parameters is not None
    assert tools[1].parameters["required"] == ["input"]
    assert found.ignored == ("tools[3].web_search",)


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        ("auto", "auto", ()),
        ("none", "none", ()),
        ("required", "required", ()),
        ({"type": "function", "name": "look"}, "named", ("look",)),
        ({"type": "custom", "name": "patch"}, "named", ("patch",)),
        ({"type": "function", "name": "inner", "namespace": "ns"}, "named", ("ns.inner",)),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}, HOSTED]},
            "named",
            ("look",),
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [HOSTED]}, "none", ()),
    ],
)
def test_tool_choices(choice: Any, mode: str, names: tuple[str, ...]) -> None:
    found = chat(tools=[FUNCTION, PATCH, SPACE, HOSTED], tool_choice=choice, parallel_tool_calls=False)
    assert (found.tool_choice.mode, found.tool_choice.names) == (mode, names)
    assert not found.parallel_tool_calls


def test_allowed_tools_leaves_only_those() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "patch"}]}
    assert [tool.name for tool in chat(tools=[FUNCTION, PATCH], tool_choice=choice).tools] == ["patch"]


def test_thinking() -> None:
    assert chat().thinking == Thinking()
    assert chat(reasoning={"summary": "auto"}).thinking == Thinking()
    assert chat(reasoning={"effort": "low", "context": "all_turns"}).thinking == Thinking("on", "low", None, True)
    assert chat(reasoning={"effort": "none"}).thinking == Thinking("off", "none")
    assert chat(chat_template_kwargs={"enable_thinking": False}, thinking_budget=9).thinking == Thinking("off", None, 9)


def test_formats() -> None:
    schema = {"type": "object"}
    found = request(text={"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}).format
    assert found == OutputFormat("json_schema", '{"type":"object"}', "text.format.schema", True)
    assert request(text={"format": {"type": "text"}, "verbosity": "low"}).format is None
    assert request(text={"format": {"type": "json_object"}}).format == OutputFormat("json", field="text.format")


def test_fields() -> None:
    found = request(
        max_output_tokens=9,
        temperature=0.5,
        top_k=3,
        stop=["x"],
        prompt_cache_key="s",
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        stream=True,
        return_progress=True,
    )
    assert (found.max_tokens, found.stop, found.cache.session, found.logprobs) == (9, ("x",), "s", 2)
    assert (found.sampling.temperature, found.sampling.top_k, found.progress) == (0.5, 3, True)


def test_plan() -> None:
    plan = call(background=True, previous_response_id="resp_x", truncation="auto", stream=True).plan
    assert (plan.previous, plan.store, plan.background, plan.events, plan.truncate) == (
        "resp_x",
        True,
        True,
        True,
        True,
    )
    assert not call(store=False).plan.store


def test_a_continuation_has_history_but_not_old_instructions() -> None:
    recalled = Recalled(history=(user("a"), Message("assistant", (TextPart("b"),))), items=(b'{"id":"1"}',))
    given = call(previous_response_id="resp_x", instructions="new").build(recalled)
    assert isinstance(given.request.input, ChatInput)
    assert [message.text for message in given.request.input.messages] == ["new", "a", "b", "hi"]
    assert [message.text for message in given.context] == ["a", "b", "hi"]
    assert len(given.items) == 2


def test_references() -> None:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "old"}]}
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "so"}]}
    known = {"msg_1": json.dumps(item).encode(), "rs_1": json.dumps(thought).encode()}
    items = [{"type": "item_reference", "id": "rs_1"}, {"id": "msg_1"}, {"role": "user", "content": "x"}]
    assert call(input=items).plan.references == ("rs_1", "msg_1")
    [first, _] = messages(*items, recalled=Recalled(referenced=known))
    assert first.parts == (ReasoningPart("so"), TextPart("old"))
    with pytest.raises(NotFound, match="msg_1"):
        call(input=[{"id": "msg_1"}]).build(Recalled())


def test_kept_items_have_type_id_status_and_parts() -> None:
    items = call(input=[{"role": "user", "content": "x"}, {"id": "a", "role": "assistant", "content": "y"}])
    found = [msgspec.json.decode(item) for item in items.build(Recalled()).items]
    assert [(item["type"], item["status"]) for item in found] == [("message", "completed")] * 2
    assert found[0]["content"] == [{"type": "input_text", "text": "x"}]
    assert found[1]["content"] == [{"type": "output_text", "text": "y", "annotations": []}]
    assert response_of(found[0]["id"]) == items.plan.id
    assert found[1]["id"] == "a"


def test_items_of_hosted_tools_are_left_out_and_named() -> None:
    found = call(
        input=[{"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"role": "user", "content": "x"}]
    )
    assert found.ignored == ("input[0].web_search_call",)
    given = found.build(Recalled()).request.input
    assert isinstance(given, ChatInput)
    assert given.messages == (user("x"),)


def test_ids_tell_their_response() -> None:
    id = new_response_id()
    assert response_of(output_id("msg", id, 17)) == id
    assert response_of(input_id("fco", id, 3)) == id
    assert response_of("msg_short") is None
    assert response_of("x") is None


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        ({"input": None}, MissingField, "input"),
        ({"input": 3}, InvalidField, "input"),
        ({"input": [{"role": "wizard", "content": "x"}]}, InvalidField, "input[0].role"),
        ({"input": [{}]}, InvalidField, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, InvalidField, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "name": "x"}]}, MissingField, "input[0].call_id"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, UnsupportedField, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}]},
            UnsupportedField,
            "input[0].content[0].file_url",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "?"}]}]},
            InvalidField,
            "input[0].content[0].file_data",
        ),
        ({"conversation": "conv_1"}, UnsupportedField, "conversation"),
        ({"prompt": {"id": "p"}}, UnsupportedField, "prompt"),
        ({"n": 2}, UnsupportedField, "n"),
        ({"include": ["x"]}, InvalidField, "include[0]"),
        ({"truncation": "x"}, InvalidField, "truncation"),
        ({"background": True, "store": False}, InvalidField, "store"),
        ({"reasoning": {"effort": "x"}}, InvalidField, "reasoning.effort"),
        ({"reasoning": {"summary": "x"}}, InvalidField, "reasoning.summary"),
        ({"text": {"verbosity": "x"}}, InvalidField, "text.verbosity"),
        ({"text": {"format": {"type": "x"}}}, InvalidField, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, MissingField, "text.format.schema"),
        ({"metadata": {"a": 1}}, InvalidField, "metadata.a"),
        ({"metadata": {str(i): "x" for i in range(17)}}, InvalidField, "metadata"),
        ({"client_metadata": {"a": 1}}, InvalidField, "client_metadata.a"),
        ({"top_logprobs": 21}, InvalidField, "top_logprobs"),
        ({"max_output_tokens": 0}, InvalidField, "max_output_tokens"),
        ({"temperature": 3}, InvalidField, "temperature"),
        ({"tools": [FUNCTION, FUNCTION]}, InvalidField, "tools[1].name"),
        ({"tools": [{"type": "function"}]}, MissingField, "tools[0].name"),
        ({"tools": [{**SPACE, "name": "a.b"}]}, InvalidField, "tools[0].name"),
        ({"tools": [{**PATCH, "format": {"type": "grammar"}}]}, InvalidField, "tools[0].format.syntax"),
        ({"tool_choice": "required"}, InvalidField, "tool_choice"),
        ({"tool_choice": "required", "tools": [HOSTED]}, InvalidField, "tool_choice"),
        ({"tool_choice": HOSTED, "tools": [HOSTED]}, UnsupportedField, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "x"}, "tools": [FUNCTION]}, InvalidField, "tool_choice.name"),
        ({"tool_choice": {"type": "function", "name": "patch"}, "tools": [PATCH]}, InvalidField, "tool_choice.name"),
    ],
)
def test_refusals_name_their_field(body: dict[str, Any], kind: type[DragomanError], field: str) -> None:
    with pytest.raises(kind) as caught:
        request(**body)
    assert caught.value.field == field


def test_agents_are_known_by_their_headers() -> None:
    codex = {"originator": "codex_exec", "user-agent": "codex_exec/0.171.0 (Linux)"}
    assert agent_of(codex) == "codex:detected"
    assert agent_of({**codex, "x-dragoman-agent-compat": "off"}) == ""
    assert agent_of({"x-mlx2-agent-compat": "on"}) == "header"
    assert agent_of({**codex, "user-agent": "OpenAI/Python 3"}) == ""
    with pytest.raises(InvalidField):
        agent_of({"x-dragoman-agent-compat": "maybe"})


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_requests_are_read(path: Path) -> None:
    record = json.loads(path.read_text())
    found = read_response(post(record["path"], record["body"], record["headers"]))
    given = found.build(Recalled()).request.input
    assert isinstance(given, ChatInput)
    assert not [name for name in found.ignored if not name.startswith(("tools[", "input["))]
    if "codex" in path.stem and path.stem != "codex-05":
        assert (found.agent, found.stream, found.plan.store) == ("codex:detected", True, False)
        assert found.build(Recalled()).request.cache.session == record["body"]["prompt_cache_key"]
    if path.stem == "codex-02":
        assert [tool.name for tool in given.tools if "." in tool.name][0] == "multi_agent_v1.close_agent"
        assert isinstance(given.messages[-1].parts[0], ToolResultPart)


def test_counting_reads_the_same_prompt() -> None:
    body = {"input": "hi", "instructions": "i", "tools": [FUNCTION], "reasoning": {"effort": "low"}}
    counted = read_count(post("/v1/responses/input_tokens", body)).build(Recalled()).request.input
    assert counted == chat(**body)


def test_a_tool_keeps_its_wire_name() -> None:
    from dragoman.dialects.openai_responses.schema import CreateResponse
    from dragoman.dialects.openai_responses.tools import read_tools

    names = read_tools(CreateResponse(tools=[SPACE, PATCH])).names
    assert names == {"ns.inner": ToolName("function", "inner", "ns"), "patch": ToolName("custom", "patch")}


def test_the_body_must_be_an_object() -> None:
    with pytest.raises(InvalidRequest):
        read_response(post("/v1/responses", b"[]"))
