"""Content blocks: what each is read as, what is left out and named, and what is refused by its path."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core.errors import InvalidField, InvalidRequest, MissingField, UnsupportedField
from dragoman.core.messages import Message, TextPart, ToolCallPart, ToolResultPart
from dragoman.dialects.anthropic.blocks import ELSEWHERE
from dragoman.dialects.anthropic.messages import Conversation, read_conversation
from dragoman.dialects.anthropic.schema import MessageParam
from dragoman.dialects.decoding import convert

HI = {"role": "user", "content": "hi"}
CALL = {"type": "tool_use", "id": "t", "name": "look", "input": {}}


def read(*messages: dict[str, Any]) -> Conversation:
    return read_conversation(None, convert(list(messages), list[MessageParam], "messages"))


@pytest.mark.parametrize("kind", sorted(ELSEWHERE))
def test_blocks_of_tools_that_ran_at_anthropic_are_left_out_and_named(kind: str) -> None:
    block = {"type": kind, "id": "s", "tool_use_id": "s", "name": "x", "input": {}, "content": {"type": "error"}}
    said = {"role": "assistant", "content": [{"type": "text", "text": "a"}, block, {"type": "text", "text": "b"}]}
    found = read(HI, said, HI)
    assert found.messages[1] == Message("assistant", (TextPart("a"), TextPart("b")))
    assert found.ignored == ("messages[1].content[1]",)


def test_a_turn_of_nothing_else_is_left_out() -> None:
    gone = {"role": "assistant", "content": [{"type": "server_tool_use"}]}
    assert len(read(HI, gone, HI).messages) == 2
    with pytest.raises(InvalidField, match="messages"):
        read(gone)


@pytest.mark.parametrize(
    ("role", "block", "field"),
    [
        ("user", {"type": "teapot"}, "type"),
        ("user", CALL, "type"),
        ("user", {"type": "thinking", "thinking": "x", "signature": ""}, "type"),
        ("assistant", {"type": "tool_result", "tool_use_id": "t"}, "type"),
        ("system", {"type": "tool_result", "tool_use_id": "t"}, "type"),
        ("user", {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "x"}}, "type"),
        ("assistant", {**CALL, "input": [1]}, "input"),
        ("user", {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "teapot"}]}, "content[0].type"),
        ("user", {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text"}]}, "content[0].text"),
        ("user", {"type": "tool_result", "tool_use_id": "t", "content": [{}]}, "content[0].type"),
        ("user", {"type": "tool_result", "tool_use_id": "t", "content": 5}, "content"),
        ("user", {"type": "document", "source": {"type": "file", "file_id": "f"}}, "source.type"),
        ("user", {"type": "search_result", "content": [{"type": "document"}]}, "content[0].type"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(role: str, block: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(HI, {"role": role, "content": [block]})
    assert caught.value.field == f"messages[1].content[0].{field}"
    assert f"messages[1].content[0].{field}" in caught.value.message


def test_nested_results_keep_text_and_errors() -> None:
    content = [
        {"type": "text", "text": "a"},
        {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "b"}]},
        {"type": "document", "title": "D", "source": {"type": "text", "media_type": "text/plain", "data": "c"}},
    ]
    block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
    found = read(HI, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [block]})
    texts = tuple(TextPart(text) for text in ("a", "T\nS\n", "b", "D\n", "c"))
    assert found.messages[1].parts == (ToolCallPart("t", "look", "{}"),)
    assert found.messages[2].parts == (ToolResultPart("t", texts, is_error=True),)


@pytest.mark.parametrize("enabled", [True, False])
def test_citations_are_named_when_they_are_wanted(enabled: bool) -> None:
    block = {"type": "document", "source": {"type": "content", "content": "x"}, "citations": {"enabled": enabled}}
    assert read({"role": "user", "content": [block]}).ignored == (("messages[0].content[0].citations",) * enabled)
    replayed = {"type": "text", "text": "x", "citations": [{"type": "char_location"}]}
    assert read(HI, {"role": "assistant", "content": [replayed]}, HI).ignored == ()


def test_a_system_message_for_one_turn_goes_with_the_next_question() -> None:
    once = {"role": "system", "content": "be brief", "clear_at": "next_user_message"}
    always = {**once, "clear_at": "never"}
    said = {"role": "assistant", "content": "ok"}
    assert read(HI, once).messages[1].text == "be brief"
    assert read(HI, once, said).messages[1].role == "system"
    assert [turn.role for turn in read(HI, once, said, HI).messages] == ["user", "assistant", "user"]
    assert [turn.role for turn in read(HI, always, said, HI).messages] == ["user", "system", "assistant", "user"]
    with pytest.raises(InvalidField) as caught:
        read({**HI, "clear_at": "never"})
    assert caught.value.field == "messages[0].clear_at"


def test_an_effort_holds_for_the_turn_it_is_said_in() -> None:
    low = {"role": "system", "output_config": {"effort": "low"}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
    assert read(HI, low).effort == "low"
    assert len(read(HI, low).messages) == 1
    assert read(HI, low, {"role": "assistant", "content": [CALL]}, result).effort == "low"
    assert read(HI, low, {"role": "assistant", "content": "ok"}, HI).effort is None
    with pytest.raises(MissingField) as caught:
        read(HI, {"role": "system"})
    assert caught.value.field == "messages[1].content"


def test_tools_that_come_and_go_are_told_in_their_place() -> None:
    changes = [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "look"}},
        {"type": "tool_removal", "tool": {"type": "tool_reference", "tool_name": "save"}},
    ]
    told = read(HI, {"role": "system", "content": changes}).messages[1].text
    assert "look can" in told
    assert "save must not" in told
    inline = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": "x"}}}
    with pytest.raises(UnsupportedField) as caught:
        read(HI, {"role": "system", "content": [inline]})
    assert caught.value.field == "messages[1].content[0].tool.type"
