"""The official Anthropic SDK against the scripted engine, and a little of it against a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anthropic
import httpx2
import pytest
from pydantic import BaseModel, ConfigDict

from tests.support.running import RunningServer
from tests.wire.clients import anthropic_client
from tests.wire.scripts import scripted

LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}}}
CALL = '<tool_call>{"name": "look", "arguments": {"place": "Oslo"}}</tool_call>'


class Weather(BaseModel):
    place: str
    degrees: int


class Choice(BaseModel):
    """Short whatever the model says."""

    model_config = ConfigDict(extra="forbid")
    sky: Literal["clear", "cloudy", "rain"]


@pytest.fixture
def client(fake: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic_client(fake.url) as client:
        yield client


def ask(text: str, **more) -> dict:
    return {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}


def test_whole(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**ask("WORDS", system="Be brief."))
    assert [(block.type, block.text) for block in message.content] == [("text", "one two three four five")]
    assert (message.stop_reason, message.stop_sequence, message.model) == ("end_turn", None, "fake")
    assert message.usage.output_tokens == 6
    assert message._request_id


def test_stream_folds_to_the_whole(client: anthropic.Anthropic) -> None:
    for text in ("WORDS", "EMOJI", "THINK"):
        whole = client.messages.create(**ask(text))
        with client.messages.stream(**ask(text)) as stream:
            final = stream.get_final_message()
        assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]
        assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


def test_case_36_usage_at_the_start(client: anthropic.Anthropic) -> None:
    counted = client.messages.count_tokens(
        model="claude", messages=[{"role": "user", "content": "WORDS"}], tools=[LOOK]
    )
    with client.messages.create(**ask("WORDS", tools=[LOOK]), stream=True) as stream:
        events = list(stream)
    assert events[0].type == "message_start"
    usage = events[0].message.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens > 0
    assert next(event for event in events if event.type == "message_delta").usage.output_tokens == 6


def test_tool_use(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**ask("WEATHER in Oslo?", tools=[LOOK]))
    assert message.stop_reason == "tool_use"
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.content[1].input == {"place": "Oslo"}
    with client.messages.stream(**ask("WEATHER in Oslo?", tools=[LOOK])) as stream:
        final = stream.get_final_message()
    assert final.content[1].input == {"place": "Oslo"}


def test_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**ask("WORDS", stop_sequences=["zzz", "o thr"]))
    assert (message.content[0].text, message.stop_reason, message.stop_sequence) == ("one tw", "stop_sequence", "o thr")


def test_limit(client: anthropic.Anthropic) -> None:
    assert client.messages.create(**ask("WORDS", max_tokens=2)).stop_reason == "max_tokens"


def test_errors(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**ask("word " * 3000))
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert "2048" in caught.value.body["error"]["message"]
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**{**ask("x"), "messages": []})
    with pytest.raises(anthropic.InternalServerError):
        client.messages.create(**ask("ROWFAIL"))
    with client.messages.create(**ask("ROWFAIL"), stream=True) as stream, pytest.raises(anthropic.APIStatusError):
        list(stream)
    assert client.messages.create(**ask("WORDS")).content


@pytest.mark.parametrize("limit", [5, 6, 7, 8, 9])
def test_case_04_a_call_cut_by_the_limit(client: anthropic.Anthropic, limit: int) -> None:
    asked = ask("WEATHER in Oslo?", tools=[LOOK], max_tokens=limit)
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    assert whole.stop_reason == final.stop_reason == "max_tokens"
    shapes = [[(block.type, getattr(block, "input", None)) for block in message.content] for message in (whole, final)]
    assert shapes[0] == shapes[1]
    assert all(arguments in (None, {}, {"place": "Oslo"}) for _, arguments in shapes[0])


def test_system_and_stop_details(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**ask("WORDS", system=[{"type": "text", "text": "Be brief."}]))
    counted = client.messages.count_tokens(model="claude", messages=ask("WORDS")["messages"], system="Be brief.")
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) == counted.input_tokens
    assert message.usage.cache_creation_input_tokens == 0


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_a_thought_is_replayed_as_the_sdk_gives_it_back(client: anthropic.Anthropic, display: str) -> None:
    asked = ask("THINK", thinking={"type": "adaptive", "display": display})
    with client.messages.stream(**asked) as stream:
        events = [event.type for event in stream]
        first = stream.get_final_message()
    assert [block.type for block in first.content] == ["thinking", "text"]
    assert first.content[0].thinking == ("so so" if display == "summarized" else "")
    assert ("thinking" in events) is (display == "summarized")
    assert "signature" in events
    details = first.usage.output_tokens_details
    assert details is not None
    assert 0 < details.thinking_tokens < first.usage.output_tokens
    talk = [*asked["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": "THINK"}]
    second = client.messages.create(**{**asked, "messages": talk})
    assert second.content[-1].text == "Hi there"


def test_budgets_are_checked(client: anthropic.Anthropic) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert client.messages.create(**ask("THINK", thinking=thinking, max_tokens=1100)).content[0].type == "thinking"
    for budget, limit in ((1023, 2000), (1024, 1024)):
        with pytest.raises(anthropic.BadRequestError, match="budget_tokens"):
            client.messages.create(**ask("THINK", thinking={**thinking, "budget_tokens": budget}, max_tokens=limit))


def test_the_tool_runner_runs_tools(tmp_path: Path) -> None:
    """Its second request carries the result, which the script answers in words."""
    seen: list[str] = []

    @anthropic.beta_tool
    def look(place: str) -> str:
        """Look at the weather.

        Args:
            place: Where.
        """
        seen.append(place)
        return f"RAIN in {place}"

    rules = [{"match": "RAIN", "pieces": ["It", " rains", "."]}, {"match": "WEATHER", "pieces": [CALL]}]
    with scripted(tmp_path, {"rules": rules}) as server, anthropic_client(str(server.base_url)) as client:
        runner = client.beta.messages.tool_runner(**ask("WEATHER in Oslo?"), tools=[look])
        messages = list(runner)
        assert [message.stop_reason for message in messages] == ["tool_use", "end_turn"]
        assert (seen, messages[-1].content[0].text) == (["Oslo"], "It rains.")
        streamed = client.beta.messages.tool_runner(**ask("WEATHER in Oslo?"), tools=[look], stream=True)
        finals = [stream.get_final_message() for stream in streamed]
        assert [message.stop_reason for message in finals] == ["tool_use", "end_turn"]


def test_parse(tmp_path: Path) -> None:
    script = {"rules": [{"pieces": ['{"place": ', '"Oslo", "degrees": 9}']}]}
    with (
        scripted(tmp_path, script, grammar_degrade=True) as server,
        anthropic_client(str(server.base_url)) as client,
    ):
        parsed = client.messages.parse(**ask("?"), output_format=Weather)
        assert parsed.parsed_output == Weather(place="Oslo", degrees=9)
        beta = client.beta.messages.parse(**ask("?"), output_format=Weather)
        assert beta.parsed_output == Weather(place="Oslo", degrees=9)
        with client.messages.stream(**ask("?"), output_format=Weather) as stream:
            assert stream.get_final_message().parsed_output == Weather(place="Oslo", degrees=9)


def test_beta_fields(client: anthropic.Anthropic) -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}]
    asked = ask("WORDS", context_management={"edits": edits}, betas=["context-management-2025-06-27", "made-up-beta"])
    message = client.beta.messages.create(**asked)
    assert message.context_management is not None
    assert message.context_management.applied_edits == []
    counted = client.beta.messages.count_tokens(
        model="claude", messages=asked["messages"], context_management={"edits": edits}
    )
    assert counted.context_management is not None
    assert counted.context_management.original_input_tokens == counted.input_tokens
    with pytest.raises(anthropic.BadRequestError, match="compact_20260112"):
        client.beta.messages.create(**{**asked, "context_management": {"edits": [{"type": "compact_20260112"}]}})
    hosted = [{"type": "web_search_20250305", "name": "web_search"}]
    raw = client.messages.with_raw_response.create(**ask("WORDS", tools=hosted))
    assert raw.headers["x-dragoman-ignored"] == "tools[0]"
    assert raw.request_id == raw.headers["request-id"]


def test_client_tools(tmp_path: Path) -> None:
    call = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
    with (
        scripted(tmp_path, {"rules": [{"pieces": [call]}]}) as server,
        anthropic_client(str(server.base_url)) as client,
    ):
        message = client.messages.create(**ask("?", tools=[{"type": "bash_20250124", "name": "bash"}]))
    assert [(block.type, block.name, block.input) for block in message.content] == [
        ("tool_use", "bash", {"command": "ls"})
    ]


def test_models(client: anthropic.Anthropic) -> None:
    [model] = [model for model in client.models.list() if model.id == "fake"]
    assert (model.type, model.display_name, model.lifecycle, model.max_input_tokens) == (
        "model",
        "fake",
        "active",
        2048,
    )
    assert client.models.retrieve("fake") == model
    page = client.models.list(limit=1)
    assert (page.first_id, len(page.data)) == ("fake", 1)
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.models.retrieve("nobody/knows")
    assert caught.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError):
        client.models.list(after_id="nobody")


def test_others_get_their_own_list_of_models(fake: RunningServer) -> None:
    with httpx2.Client(base_url=fake.url) as plain:
        listed = plain.get("/v1/models", headers={"x-api-key": "x"}).json()
        assert listed["object"] == "list"
        missing = plain.get("/v1/models/nobody", headers={"anthropic-version": "2023-06-01"})
        assert (missing.status_code, missing.json()["type"]) == (404, "error")
        assert missing.json()["request_id"] == missing.headers["request-id"]
        assert "type" not in plain.get("/v1/models/nobody").json()


# --- a real model


@pytest.fixture
def engine(llamacpp: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic_client(llamacpp.url, timeout=120) as client:
        yield client


def test_a_model_counts_what_it_reads(engine: anthropic.Anthropic) -> None:
    asked = ask("Say hi.", system="You are brief.", max_tokens=4, extra_body={"seed": 1})
    whole = engine.messages.create(**asked)
    counted = engine.messages.count_tokens(model="m", messages=asked["messages"], system="You are brief.")
    usage = whole.usage
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted.input_tokens
    with engine.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    assert final.stop_reason in ("end_turn", "max_tokens")
    assert (final.usage.cache_read_input_tokens or 0) > 0


@pytest.mark.long
def test_a_model_is_held_to_a_schema_and_a_tool(engine: anthropic.Anthropic) -> None:
    parsed = engine.messages.parse(**ask("How is the weather?", max_tokens=200), output_format=Choice)
    assert parsed.parsed_output is not None or parsed.stop_reason == "max_tokens"
    choice = {"type": "tool", "name": "look", "disable_parallel_tool_use": True}
    tool = {"name": "look", "input_schema": Choice.model_json_schema()}
    message = engine.messages.create(**ask("How is the weather?", max_tokens=200, tools=[tool], tool_choice=choice))
    assert [(block.type, block.name) for block in message.content] == [("tool_use", "look")]
    Choice.model_validate(message.content[0].input)


def test_a_model_continues_a_turn(engine: anthropic.Anthropic) -> None:
    turns = [{"role": "user", "content": "Count to five."}, {"role": "assistant", "content": "1, 2, 3,"}]
    message = engine.messages.create(model="m", max_tokens=4, messages=turns, extra_body={"temperature": 0})
    assert "4" in message.content[0].text
