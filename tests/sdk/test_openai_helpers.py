"""Helpers of the official SDK that need a scripted answer: tools, parsed schemas, legacy calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.support.running import RunningServer
from tests.wire.clients import openai_client
from tests.wire.scripts import scripted


class look(BaseModel):  # noqa: N801  the SDK names the tool after the class
    """Looks at a place."""

    place: str


TOOL = openai.pydantic_function_tool(look)


def ask(text: str) -> dict[str, Any]:
    return {"model": "x", "messages": [{"role": "user", "content": text}]}


class Pet(BaseModel):
    name: str
    age: int


PET_SCRIPT = {"rules": [{"pieces": ['{"name": "Rex"', ', "age": 3}']}]}


def test_tools_are_parsed(fake: RunningServer) -> None:
    with openai_client(fake.url) as client:
        message = client.chat.completions.parse(**ask("WEATHER?"), tools=[TOOL]).choices[0].message
    [call] = message.tool_calls
    assert call.function.parsed_arguments == look(place="Oslo")


def test_tools_are_streamed_to_the_helper(fake: RunningServer) -> None:
    with openai_client(fake.url) as client, client.chat.completions.stream(**ask("WEATHER?"), tools=[TOOL]) as stream:
        events = [event for event in stream if event.type.startswith("tool_calls.")]
        final = stream.get_final_completion()
    assert "".join(event.arguments_delta for event in events[:-1]) == '{"place": "Oslo"}'
    assert (events[-1].type, events[-1].parsed_arguments) == (
        "tool_calls.function.arguments.done",
        look(place="Oslo"),
    )
    assert final.choices[0].finish_reason == "tool_calls"


def test_a_round_of_tools(fake: RunningServer) -> None:
    """What a tool runner does: call, result, answer."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    with openai_client(fake.url) as client:
        messages: list[Any] = [{"role": "user", "content": "WEATHER?"}]
        first = client.chat.completions.create(model="x", messages=messages, tools=[tool]).choices[0]
        assert first.finish_reason == "tool_calls"
        messages += [
            first.message,
            {"role": "tool", "tool_call_id": first.message.tool_calls[0].id, "content": "Rain."},
            {"role": "user", "content": "In WORDS?"},
        ]
        second = client.chat.completions.create(model="x", messages=messages, tools=[tool])
    assert second.choices[0].finish_reason in ("stop", "tool_calls")


def test_a_schema_is_parsed_and_streamed(tmp_path: Path) -> None:
    with scripted(tmp_path, PET_SCRIPT, grammar_degrade=True) as raw, openai_client(str(raw.base_url)) as client:
        whole = client.chat.completions.parse(**ask("A pet."), response_format=Pet)
        with client.chat.completions.stream(**ask("A pet."), response_format=Pet) as stream:
            final = stream.get_final_completion()
    assert whole.choices[0].message.parsed == final.choices[0].message.parsed == Pet(name="Rex", age=3)


def test_a_cut_answer_is_told_by_the_helper(fake: RunningServer) -> None:
    with openai_client(fake.url) as client, pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**ask("WEATHER?"), tools=[TOOL], max_tokens=7)


def test_legacy_functions(fake: RunningServer) -> None:
    function = {"name": "look", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
    with openai_client(fake.url) as client:
        choice = client.chat.completions.create(**ask("WEATHER?"), functions=[function]).choices[0]
    assert (choice.finish_reason, choice.message.function_call.name) == ("function_call", "look")
