"""Every field the official SDK can send with a response has a decided meaning, and every event of its stream; the
documentation tells them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from openai.types.responses import ResponseStreamEvent as SdkEvent
from openai.types.responses.input_token_count_params import InputTokenCountParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from dragoman.core.errors import InvalidRequest, UnsupportedField
from dragoman.core.responses import Recalled
from dragoman.dialects.base import ResponseCall
from dragoman.dialects.openai_responses.eventshape import ResponseStreamEvent
from dragoman.dialects.openai_responses.read import read_count, read_response
from dragoman.dialects.openai_responses.schema import CountInput
from tests.dialects.wire import post

DOCS = Path(__file__).parents[3] / "docs" / "dialects.md"
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
# Field -> a value that changes something, with what it needs beside it.
HONOURED: dict[str, Any] = {
    "background": True,
    "include": ["reasoning.encrypted_content"],
    "input": "other",
    "instructions": "Be brief.",
    "max_output_tokens": 7,
    "model": "other",
    "parallel_tool_calls": False,
    "previous_response_id": "resp_1",
    "prompt_cache_key": "k",
    "reasoning": {"effort": "low"},
    "store": False,
    "stream": True,
    "temperature": 0.1,
    "text": {"format": {"type": "json_object"}},
    "tool_choice": "required",
    "tools": [TOOL],
    "top_logprobs": 2,
    "top_p": 0.5,
    "truncation": "auto",
}
BESIDE: dict[str, dict[str, Any]] = {"parallel_tool_calls": {"tools": [TOOL]}, "tool_choice": {"tools": [TOOL]}}
# Field -> (a value that asks for nothing here, one that is wrong).
CHECKED: dict[str, tuple[Any, Any]] = {
    "access_programs": ({}, "x"),
    "background_options": ({"completion_window": "2h"}, "2h"),
    "image": ({"context_compression": "auto"}, "auto"),
    "max_tool_calls": (3, -1),
    "metadata": ({"a": "b"}, {"a": 1}),
    "prompt_cache_options": ({"mode": "implicit"}, "implicit"),
    "prompt_cache_retention": ("24h", "1y"),
    "safety_identifier": ("abc", 5),
    "service_tier": ("flex", "first class"),
    "stream_options": ({"include_obfuscation": False}, "x"),
    "user": ("me", 5),
}
NOTED: dict[str, Any] = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
REFUSED: dict[str, Any] = {
    "conversation": "conv_1",
    "moderation": {"model": "omni-moderation-latest"},
    "prompt": {"id": "pmpt_1"},
}


def read(**extra: Any) -> ResponseCall:
    return read_response(post("/v1/responses", {"input": "hi", **extra}))


def meaning(call: ResponseCall) -> tuple[Any, ...]:
    """All that a field may change, but what is only said back."""
    [reply] = [cell.cell_contents for cell in call.writer.__closure__ or ()]
    shown = (reply.summaries, reply.logprobs, reply.encrypted, reply.phases)
    return replace(call.plan, id=""), call.build(Recalled()).request, call.stream, shown


def test_every_field_of_the_sdk_is_decided() -> None:
    assert {*ResponseCreateParamsBase.__annotations__, "stream"} == {*HONOURED, *CHECKED, *NOTED, *REFUSED}


@pytest.mark.parametrize("name", HONOURED)
def test_honoured_fields_change_something(name: str) -> None:
    beside = BESIDE.get(name, {})
    found = read(**{**beside, name: HONOURED[name]})
    assert found.ignored == ()
    assert meaning(found) != meaning(read(**beside))


@pytest.mark.parametrize("name", CHECKED)
def test_checked_fields_change_nothing(name: str) -> None:
    right, wrong = CHECKED[name]
    found = read(**{name: right})
    assert found.ignored == ()
    assert meaning(found) == meaning(read())
    with pytest.raises(InvalidRequest) as caught:
        read(**{name: wrong})
    assert (caught.value.field or "").split(".")[0] == name


@pytest.mark.parametrize("name", NOTED)
def test_noted_fields_change_nothing_and_are_told(name: str) -> None:
    found = read(**{name: NOTED[name]})
    assert found.ignored == (name,)
    assert meaning(found) == meaning(read())


@pytest.mark.parametrize("name", REFUSED)
def test_refused_fields_are_named(name: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        read(**{name: REFUSED[name]})
    assert caught.value.field == name


def test_null_asks_for_nothing() -> None:
    names = {*HONOURED, *CHECKED, *REFUSED} - {"input"}
    found = read(**dict.fromkeys(names))
    assert (meaning(found), found.ignored) == (meaning(read()), ())


def test_a_count_knows_what_the_sdk_sends_with_it() -> None:
    assert set(InputTokenCountParams.__annotations__) <= set(CountInput.__struct_fields__)
    with pytest.raises(UnsupportedField):
        read_count(post("/v1/responses/input_tokens", {"input": "x", "conversation": "conv_1"}))


def test_the_documentation_has_them_all() -> None:
    part = DOCS.read_text().split("### Fields of Responses\n")[1].split("\n#")[0]
    for word, group in (("honoured", HONOURED), ("checked", CHECKED), ("left out", NOTED), ("refused", REFUSED)):
        row = next((line for line in part.splitlines() if line.startswith(f"| {word} ")), "")
        assert set(group) == set(re.findall(r"`(\w+)`", row)), word


def test_every_event_of_the_sdk_is_decided() -> None:
    part = DOCS.read_text().split("### Events of Responses\n")[1].split("\n#")[0]
    sent, never = (
        set(re.findall(r"`(error|response\.[\w.*]+)`", line))
        for line in part.splitlines()
        if line.startswith(("| sent", "| never"))
    )
    ours = {kind.__struct_config__.tag for kind in get_args(ResponseStreamEvent)}
    theirs = {kind.model_fields["type"].annotation.__args__[0] for kind in get_args(get_args(SdkEvent)[0])}
    assert sent == ours
    assert ours - theirs == {"response.cancelled"}
    assert {name if name == "error" else f"{name.rpartition('.')[0]}.*" for name in theirs - ours} == never
