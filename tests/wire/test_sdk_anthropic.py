"""The official Anthropic SDK against the scripted engine."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from tests.support.running import RunningServer
from tests.wire.clients import anthropic_client

LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}}}


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
