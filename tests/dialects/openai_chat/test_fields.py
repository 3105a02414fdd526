"""Every field the official SDK can send has a decided meaning, which the documentation tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types import completion_create_params as completion_params
from openai.types.chat import completion_create_params as chat_params

from dragoman.core.errors import InvalidRequest, UnsupportedField
from dragoman.dialects.base import GenerateCall
from dragoman.dialects.openai_chat.read import read_chat
from dragoman.dialects.openai_completions.read import read_completion
from tests.dialects.wire import post

DOCS = Path(__file__).parents[3] / "docs" / "dialects.md"
TOOL = {"type": "function", "function": {"name": "look"}}
SAMPLING: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "logit_bias": {"5": 1},
    "max_tokens": 7,
    "model": "other",
    "n": 2,
    "presence_penalty": 0.5,
    "seed": 3,
    "stop": ["x"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.1,
    "top_p": 0.5,
}
# Field -> a value that changes something, with what it needs beside it.
CHAT_HONOURED: dict[str, Any] = SAMPLING | {
    "function_call": "none",
    "functions": [{"name": "look"}],
    "logprobs": True,
    "max_completion_tokens": 7,
    "messages": [{"role": "user", "content": "other"}],
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
    "reasoning_effort": "low",
    "response_format": {"type": "json_object"},
    "tool_choice": "required",
    "tools": [TOOL],
    "top_logprobs": 2,
}
BESIDE: dict[str, dict[str, Any]] = {
    "function_call": {"functions": [{"name": "look"}]},
    "parallel_tool_calls": {"tools": [TOOL]},
    "stream_options": {"stream": True},
    "tool_choice": {"tools": [TOOL]},
    "top_logprobs": {"logprobs": True},
}
# Field -> (a value that asks for nothing here, one that is wrong).
CHAT_CHECKED: dict[str, tuple[Any, Any]] = {
    "metadata": ({"a": "b"}, {"a": 1}),
    "modalities": (["text"], ["text", "audio"]),
    "prediction": ({"type": "content", "content": "x"}, {"type": "content", "content": [{"type": "image_url"}]}),
    "prompt_cache_options": ({"mode": "implicit"}, "implicit"),
    "prompt_cache_retention": ("24h", "1y"),
    "safety_identifier": ("abc", 5),
    "service_tier": ("flex", "first class"),
    "store": (True, "yes"),
    "user": ("me", 5),
    "verbosity": ("low", "mute"),
}
CHAT_REFUSED: dict[str, Any] = {
    "audio": {"voice": "alloy", "format": "wav"},
    "moderation": {"model": "omni-moderation-latest"},
    "web_search_options": {},
}
TEXT_HONOURED: dict[str, Any] = SAMPLING | {
    "best_of": 2,
    "echo": True,
    "logprobs": 2,
    "prompt": [1, 2, 3],
    "suffix": "after",
}
TEXT_CHECKED = {"user": ("me", 5)}
WIRES = {
    "chat": (read_chat, {"messages": [{"role": "user", "content": "hi"}]}, CHAT_HONOURED, CHAT_CHECKED, CHAT_REFUSED),
    "completions": (read_completion, {"prompt": "hi"}, TEXT_HONOURED, TEXT_CHECKED, {}),
}


def sdk_fields(params: Any) -> set[str]:
    kinds = (kind for kind in get_args(params.CompletionCreateParams))
    return {name for kind in kinds for base in kind.__mro__ for name in getattr(base, "__annotations__", {})} | {
        name for kind in get_args(params.CompletionCreateParams) for name in kind.__annotations__
    }


def read(wire: str, **extra: Any) -> GenerateCall:
    reader, least, *_ = WIRES[wire]
    return reader(post("/", {**least, **extra}))


def listed(wire: str, group: int) -> list[tuple[str, str]]:
    return [(wire, name) for name in WIRES[wire][group]]


def reply_of(call: GenerateCall) -> Any:
    return next(cell.cell_contents for cell in call.writer.__closure__ if "Reply" in type(cell.cell_contents).__name__)


@pytest.mark.parametrize(("wire", "params"), [("chat", chat_params), ("completions", completion_params)])
def test_every_field_of_the_sdk_is_decided(wire: str, params: Any) -> None:
    _, _, honoured, checked, refused = WIRES[wire]
    assert sdk_fields(params) == {*honoured, *checked, *refused}


@pytest.mark.parametrize(("wire", "name"), listed("chat", 2) + listed("completions", 2))
def test_honoured_fields_change_something(wire: str, name: str) -> None:
    value, beside = WIRES[wire][2][name], BESIDE.get(name, {})
    without, found = read(wire, **beside), read(wire, **{**beside, name: value})
    assert found.ignored == ()
    assert (without.requests, without.stream, reply_of(without)) != (found.requests, found.stream, reply_of(found))


@pytest.mark.parametrize(("wire", "name"), listed("chat", 3) + listed("completions", 3))
def test_checked_fields_change_nothing(wire: str, name: str) -> None:
    right, wrong = WIRES[wire][3][name]
    without, found = read(wire), read(wire, **{name: right})
    assert found.ignored == ()
    assert (without.requests, reply_of(without)) == (found.requests, reply_of(found))
    with pytest.raises(InvalidRequest) as caught:
        read(wire, **{name: wrong})
    assert (caught.value.field or "").split(".")[0].split("[")[0] == name


@pytest.mark.parametrize(("wire", "name"), listed("chat", 4))
def test_refused_fields_are_named(wire: str, name: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        read(wire, **{name: WIRES[wire][4][name]})
    assert caught.value.field == name


@pytest.mark.parametrize("wire", WIRES)
def test_null_asks_for_nothing(wire: str) -> None:
    _, least, *groups = WIRES[wire]
    names = {name for group in groups for name in group} - set(least)
    found = read(wire, **dict.fromkeys(names))
    assert (found.requests, found.ignored) == (read(wire).requests, ())


def test_the_documentation_has_them_all() -> None:
    text = DOCS.read_text()
    for wire, title in (("chat", "Chat Completions"), ("completions", "Completions")):
        part = text.split(f"### Fields of {title}\n")[1].split("\n#")[0]
        for word, group in zip(("honoured", "checked", "refused"), WIRES[wire][2:], strict=True):
            row = next((line for line in part.splitlines() if line.startswith(f"| {word} ")), "")
            assert set(group) <= set(re.findall(r"`(\w+)`", row)), word


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        ({"session_id": "a", "prompt_cache_key": "b"}, {"x-session-affinity": "c", "session_id": "d"}, "a"),
        ({"prompt_cache_key": "b"}, {"x-session-affinity": "c", "session_id": "d"}, "b"),
        ({}, {"x-session-affinity": "c", "session_id": "d"}, "c"),
        ({}, {"session_id": "d"}, "d"),
        ({"session_id": ""}, {}, None),
    ],
)
def test_sessions(wire: str, body: dict[str, Any], headers: dict[str, str], session: str | None) -> None:
    reader, least, *_ = WIRES[wire]
    [request] = reader(post("/", {**least, **body}, headers)).requests
    assert request.cache.session == session


@pytest.mark.parametrize("wire", WIRES)
def test_the_options_block_stands_for_fields(wire: str) -> None:
    options = {"temperature": 0.3, "top_p": 0.4, "top_k": 5, "min_p": 0.1, "seed": 6, "stop": ["x"], "num_predict": 8}
    flat = {**options, "max_tokens": 8}
    del flat["num_predict"]
    found = read(wire, options={**options, "num_ctx": 4096})
    assert found.requests == read(wire, **flat).requests
    assert found.ignored == ("options.num_ctx",)
    assert read(wire, options={"num_predict": -2}).requests == read(wire).requests


def test_the_thinking_budget_may_be_an_option() -> None:
    assert read("chat", options={"thinking_budget": 9}).requests == read("chat", thinking_budget=9).requests


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"options": {"mirostat": 1}}, "options.mirostat"),
        ({"options": {"temperature": "hot"}}, "options.temperature"),
        ({"options": {"temperature": -1}}, "options.temperature"),
        ({"options": {"temperature": 0.5}, "temperature": 0.6}, "options.temperature"),
        ({"options": {"num_predict": 5}, "max_completion_tokens": 6}, "options.num_predict"),
        ({"options": {"num_predict": 0}}, "options.num_predict"),
        ({"options": {"stop": ["x"] * 17}}, "options.stop"),
        ({"options": []}, "options"),
    ],
)
def test_bad_options_are_named(wire: str, body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(wire, **body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({str(number): "x" for number in range(17)}, "metadata"),
        ({"k" * 65: "x"}, f"metadata.{'k' * 64}"),
        ({"k": "v" * 513}, "metadata.k"),
    ],
)
def test_metadata_has_limits(metadata: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read("chat", metadata=metadata)
    assert caught.value.field == field
