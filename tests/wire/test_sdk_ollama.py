"""The official Ollama SDK against the scripted engine."""

from __future__ import annotations

from collections.abc import Iterator

import ollama
import pytest

from tests.support.running import RunningServer
from tests.wire.clients import ollama_client


@pytest.fixture
def client(fake: RunningServer) -> Iterator[ollama.Client]:
    with ollama_client(fake.url) as client:
        yield client


def ask(text: str) -> dict:
    return {"model": "fake:latest", "messages": [{"role": "user", "content": text}]}


def look(place: str) -> str:
    """Look at a place.

    Args:
      place: Where to look.
    """
    return place


def test_chat(client: ollama.Client) -> None:
    answer = client.chat(**ask("WORDS"))
    assert (answer.message.content, answer.done, answer.done_reason) == ("one two three four five", True, "stop")
    assert answer.eval_count == 6
    assert answer.prompt_eval_count
    parts = list(client.chat(**ask("WORDS"), stream=True))
    assert "".join(part.message.content or "" for part in parts) == "one two three four five"
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]


def test_generate(client: ollama.Client) -> None:
    assert client.generate(model="fake", prompt="WORDS").response == "one two three four five"
    assert "".join(part.response for part in client.generate("fake", "EMOJI", stream=True)) == "ok😀é한!"


def test_thinking(client: ollama.Client) -> None:
    message = client.chat(**ask("THINK"), think=True).message
    assert (message.thinking, message.content) == ("so so", "Hi there")


def test_tools(client: ollama.Client) -> None:
    calls = client.chat(**ask("WEATHER in Oslo?"), tools=[look]).message.tool_calls
    assert [(call.function.name, call.function.arguments) for call in calls] == [("look", {"place": "Oslo"})]


def test_models(client: ollama.Client) -> None:
    assert [model.model for model in client.list().models] == ["fake:latest"]
    assert [model.model for model in client.ps().models] == ["fake:latest"]
    assert "completion" in client.show("fake").capabilities
    with pytest.raises(ollama.ResponseError) as caught:
        client.show("nope")
    assert caught.value.status_code == 404


def test_errors(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat(**ask("word " * 3000))
    assert caught.value.status_code == 400
    assert "2048" in caught.value.error
    with pytest.raises(ollama.ResponseError):
        client.chat(**ask("ROWFAIL"))
    with pytest.raises(ollama.ResponseError):
        list(client.chat(**ask("ROWFAIL"), stream=True))
    assert client.chat(**ask("WORDS")).message.content


@pytest.mark.parametrize("limit", [5, 6, 7, 8, 9])
def test_case_04_a_call_cut_by_the_limit(client: ollama.Client, limit: int) -> None:
    asked = {**ask("WEATHER in Oslo?"), "tools": [look], "options": {"num_predict": limit}}
    whole = client.chat(**asked)
    parts = list(client.chat(**asked, stream=True))
    assert whole.done_reason == parts[-1].done_reason == "length"
    calls = [call.function.arguments for call in whole.message.tool_calls or []]
    assert calls in ([], [{"place": "Oslo"}])
    assert calls == [call.function.arguments for part in parts for call in part.message.tool_calls or []]
    assert whole.message.content == "".join(part.message.content or "" for part in parts)
