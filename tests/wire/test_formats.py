"""Answers of a given form and forced calls, through every dialect and on both engines (cases.md 12, 13, 14)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import httpx2
import pytest
from pydantic import BaseModel, ConfigDict, Field

from tests.support.running import RunningServer
from tests.wire.asking import ASKS, PATHS, as_format, as_tools, limited

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
CALLED = {"openai_chat": "tool_calls", "openai_responses": "function_call", "anthropic": "tool_use"}
CUT = {"openai_chat": "length", "openai_responses": "max_output_tokens", "anthropic": "max_tokens"}
REQUIRED: dict[str, Any] = {"openai_chat": "required", "openai_responses": "required", "anthropic": {"type": "any"}}
NAMED: dict[str, Any] = {
    "openai_chat": {"type": "function", "function": {"name": "look"}},
    "openai_responses": {"type": "function", "name": "look"},
    "anthropic": {"type": "tool", "name": "look"},
}
WITH_TOOLS = pytest.mark.parametrize("dialect", CALLED)
ENDED = {
    "openai_chat": "stop",
    "openai_completions": "stop",
    "openai_responses": "completed",
    "anthropic": "end_turn",
    "ollama": "stop",
    "llamacpp": "eos",
}


class Wind(BaseModel):
    model_config = ConfigDict(extra="forbid")
    speed: int = Field(ge=0, le=60)
    gusts: bool


class Weather(BaseModel):
    """Behind $defs, anyOf, enum, const and bounds."""

    model_config = ConfigDict(extra="forbid")
    place: Literal["Oslo", "Rome"]
    sky: Literal["clear", "cloudy", "rain"]
    wind: Wind
    note: Literal["warm"] | None


class Outlook(BaseModel):
    """Anthropic's SDK puts the bounds of numbers into words, and only then sends a schema: so there are none."""

    model_config = ConfigDict(extra="forbid")
    place: Literal["Oslo", "Rome"]
    gusts: bool
    note: Literal["warm"] | None


SCHEMA = Weather.model_json_schema()
PLACE = {
    "type": "object",
    "properties": {"place": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["place", "days"],
    "additionalProperties": False,
}
LOOK = {"name": "look", "parameters": PLACE}
SAVE = {"name": "save", "parameters": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}


def fits_place(arguments: Any) -> bool:
    return set(arguments) == {"place", "days"} and arguments["place"] in ("Oslo", "Rome") and 1 <= arguments["days"] < 8


def once(dialect: str, *tools: dict[str, Any]) -> dict[str, Any]:
    """The fields that ask for exactly one call of any tool."""
    fields = {"tools": as_tools(dialect, *tools), "tool_choice": REQUIRED[dialect]}
    if dialect == "anthropic":
        return {**fields, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    return {**fields, "parallel_tool_calls": False}


@pytest.fixture(
    params=[
        pytest.param("llamacpp", marks=pytest.mark.llamacpp),
        pytest.param("tiny_mlx", marks=pytest.mark.mlx),
    ]
)
def engine(request: pytest.FixtureRequest) -> Iterator[httpx2.Client]:
    server: RunningServer = request.getfixturevalue(request.param)
    with httpx2.Client(base_url=server.url, timeout=300) as client:
        yield client


@STREAMS
@pytest.mark.parametrize("dialect", ASKS)
def test_case_13_an_answer_always_fits_its_schema(engine: httpx2.Client, dialect: str, stream: bool) -> None:
    said = ASKS[dialect](engine, as_format(dialect, SCHEMA), stream)
    assert (said.error, said.finish) == (None, ENDED[dialect])
    Weather.model_validate_json(said.text)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_case_13_whatever_the_model_would_rather_say(engine: httpx2.Client, temperature: float) -> None:
    for seed in range(3):
        fields = {**as_format("openai_chat", SCHEMA), "temperature": temperature, "seed": seed}
        Weather.model_validate_json(ASKS["openai_chat"](engine, fields, False).text)


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_choice": ["yes", "no"]},
        {"structured_outputs": {"choice": ["yes", "no"]}},
        {"guided_regex": "(yes|no)"},
        {"guided_grammar": 'root ::= "yes" | "no"'},
        {"grammar": '%llguidance {}\nstart: "yes" | "no"'},
    ],
    ids=str,
)
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
def test_other_constraints(engine: httpx2.Client, dialect: str, fields: dict[str, Any]) -> None:
    said = ASKS[dialect](engine, fields, False)
    assert (said.text, said.finish) in (("yes", "stop"), ("no", "stop"))


def test_native_grammars(engine: httpx2.Client) -> None:
    ask = ASKS["llamacpp"]
    assert ask(engine, {"grammar": 'root ::= "yes"', "json_schema": {"type": "null"}}, False).text == "yes"
    empty = ask(engine, {"grammar": "root ::= "}, False)
    assert (empty.status, empty.text, empty.finish) == (200, "", "eos")


def test_compact_json(engine: httpx2.Client) -> None:
    fields = {**as_format("openai_chat", SCHEMA), "any_whitespace": False}
    text = ASKS["openai_chat"](engine, fields, False).text
    assert not set(text) & set(" \n\t")


@STREAMS
@WITH_TOOLS
@pytest.mark.parametrize("named", [False, True], ids=["required", "named"])
def test_case_12_a_forced_call(engine: httpx2.Client, dialect: str, named: bool, stream: bool) -> None:
    fields = {"tools": as_tools(dialect, LOOK, SAVE), "tool_choice": NAMED[dialect]} if named else once(dialect, LOOK)
    said = ASKS[dialect](engine, fields, stream)
    assert (said.error, said.finish) == (None, CALLED[dialect])
    assert said.text.strip() == ""
    assert {name for name, _ in said.calls} == {"look"}
    assert all(fits_place(arguments) for _, arguments in said.calls)


@WITH_TOOLS
def test_case_12_forced_calls_come_to_an_end(engine: httpx2.Client, dialect: str) -> None:
    """Where several are allowed, a small model would go on to its limit."""
    fields = {"tools": as_tools(dialect, LOOK), "tool_choice": REQUIRED[dialect], **limited(dialect, 1000)}
    said = ASKS[dialect](engine, fields, True)
    assert (said.error, said.finish) == (None, CALLED[dialect])
    assert 1 <= len(said.calls) <= 8
    assert all(fits_place(arguments) for _, arguments in said.calls)


@WITH_TOOLS
def test_case_06_one_call_only(engine: httpx2.Client, dialect: str) -> None:
    assert len(ASKS[dialect](engine, once(dialect, LOOK), False).calls) == 1


def test_case_12_allowed_tools(engine: httpx2.Client) -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "save"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    fields = {"tools": as_tools("openai_chat", LOOK, SAVE), "tool_choice": choice, "parallel_tool_calls": False}
    said = ASKS["openai_chat"](engine, fields, False)
    assert [name for name, _ in said.calls] == ["save"]
    assert isinstance(said.calls[0][1]["ok"], bool)


@WITH_TOOLS
def test_case_12_none_never_calls(engine: httpx2.Client, dialect: str) -> None:
    choice: Any = {"type": "none"} if dialect == "anthropic" else "none"
    fields = {"tools": as_tools(dialect, LOOK), "tool_choice": choice, **limited(dialect, 24)}
    said = ASKS[dialect](engine, fields, False)
    assert (said.status, said.calls) == (200, [])


def test_a_format_with_free_tools_gives_one_or_the_other(engine: httpx2.Client) -> None:
    tools = as_tools("openai_chat", LOOK)
    fields = {**as_format("openai_chat", SCHEMA), "tools": tools, "parallel_tool_calls": False}
    said = ASKS["openai_chat"](engine, fields, False)
    if said.finish == "tool_calls":
        assert all(fits_place(arguments) for _, arguments in said.calls)
    else:
        Weather.model_validate_json(said.text)


@WITH_TOOLS
def test_case_04_a_forced_call_cut_by_the_limit_is_no_broken_contract(engine: httpx2.Client, dialect: str) -> None:
    fields = {"tools": as_tools(dialect, LOOK), "tool_choice": REQUIRED[dialect], **limited(dialect, 4)}
    said = ASKS[dialect](engine, fields, False)
    assert (said.status, said.finish) == (200, CUT[dialect])


@pytest.mark.parametrize("dialect", ASKS)
def test_case_14_a_schema_that_cannot_be_compiled_is_refused(engine: httpx2.Client, dialect: str) -> None:
    schema = {"type": "object", "properties": {"c": {"type": "string", "pattern": "^(["}}, "required": ["c"]}
    said = ASKS[dialect](engine, as_format(dialect, schema), True)
    assert said.status == 400
    assert said.error
    assert f"{PATHS[dialect]}.properties.c.pattern" in said.error


@pytest.mark.parametrize("form", ["un-nested", "json_object"])
def test_case_14_other_places_for_a_schema(engine: httpx2.Client, form: str) -> None:
    kind = "json_schema" if form == "un-nested" else "json_object"
    said = ASKS["openai_chat"](engine, {"response_format": {"type": kind, "schema": SCHEMA}}, False)
    Weather.model_validate_json(said.text)


def test_case_14_any_json(engine: httpx2.Client) -> None:
    import json

    fields = {"response_format": {"type": "json_object"}, "any_whitespace": False, "max_tokens": 400}
    said = ASKS["openai_chat"](engine, fields, False)
    assert said.finish in ("stop", "length")
    if said.finish == "stop":
        assert isinstance(json.loads(said.text), dict)


@pytest.mark.mlx
@pytest.mark.slow
def test_the_starter_on_mlx(mlx: RunningServer) -> None:
    with httpx2.Client(base_url=mlx.url, timeout=300) as client:
        Weather.model_validate_json(ASKS["openai_chat"](client, as_format("openai_chat", SCHEMA), True).text)
        choice = {"type": "tool", "name": "look"}
        fields = {"tools": as_tools("anthropic", LOOK), "tool_choice": choice}
        ((name, arguments),) = ASKS["anthropic"](client, fields, False).calls
        assert name == "look"
        assert fits_place(arguments)


@pytest.mark.llamacpp
def test_official_parse_helper_gives_an_object(llamacpp: RunningServer) -> None:
    import openai

    with openai.OpenAI(base_url=f"{llamacpp.url}/v1", api_key="x", max_retries=0) as client:
        parsed = client.chat.completions.parse(
            model="m",
            messages=[{"role": "user", "content": "The weather in Oslo"}],
            response_format=Weather,
            temperature=0,
            max_tokens=200,
        )
        assert isinstance(parsed.choices[0].message.parsed, Weather)
        with client.chat.completions.stream(
            model="m",
            messages=[{"role": "user", "content": "The weather in Oslo"}],
            response_format=Weather,
            temperature=0,
            max_tokens=200,
        ) as events:
            for _ in events:
                pass
            assert events.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed


@pytest.mark.llamacpp
def test_official_parse_helper_for_tools(llamacpp: RunningServer) -> None:
    import openai

    with openai.OpenAI(base_url=f"{llamacpp.url}/v1", api_key="x", max_retries=0) as client:
        parsed = client.chat.completions.parse(
            model="m",
            messages=[{"role": "user", "content": "The weather in Oslo"}],
            tools=[openai.pydantic_function_tool(Wind)],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=200,
        )
        calls = parsed.choices[0].message.tool_calls
        assert calls is not None
        assert isinstance(calls[0].function.parsed_arguments, Wind)


@pytest.mark.llamacpp
def test_anthropic_and_ollama_sdks(llamacpp: RunningServer) -> None:
    import anthropic

    from tests.wire.clients import ollama_client

    with anthropic.Anthropic(base_url=llamacpp.url, api_key="x", max_retries=0) as client:
        parsed = client.messages.parse(
            model="m",
            max_tokens=200,
            messages=[{"role": "user", "content": "The weather in Oslo"}],
            output_format=Outlook,
        )
        assert isinstance(parsed.parsed_output, Outlook)
    with ollama_client(llamacpp.url) as client:
        asked = [{"role": "user", "content": "The weather in Oslo"}]
        reply = client.chat(model="m", messages=asked, format=SCHEMA, options={"temperature": 0})
        Weather.model_validate_json(reply.message.content or "")
