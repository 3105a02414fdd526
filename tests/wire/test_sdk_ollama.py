"""The official Ollama SDK against the scripted engine and llama.cpp. What it keeps on a server: test_ollama_names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ollama
import pytest
from pydantic import BaseModel

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


def test_a_conversation_goes_on_from_its_context(client: ollama.Client) -> None:
    first = client.generate("fake", "EMOJI", system="Be brief.")
    assert first.context
    streamed = list(client.generate("fake", "EMOJI", system="Be brief.", stream=True))
    assert [part.context for part in streamed[:-1]] == [None] * (len(streamed) - 1)
    assert streamed[-1].context == first.context
    second = client.generate("fake", "WORDS", system="Be brief.", context=first.context)
    assert second.response == "one two three four five"
    assert list(second.context or ())[: len(first.context)] == first.context
    assert client.generate("fake", "WORDS", raw=True).context is None
    with pytest.raises(ollama.ResponseError, match="outside the vocabulary"):
        client.generate("fake", "x", context=[10**9])


def test_what_contradicts_itself(client: ollama.Client) -> None:
    contradictory: list[dict[str, Any]] = [
        {"raw": True, "template": "x"},
        {"suffix": "x", "system": "y"},
        {"suffix": "x"},
    ]
    for fields in contradictory:
        with pytest.raises(ollama.ResponseError) as caught:
            client.generate("fake", "x", **fields)
        assert caught.value.status_code == 400


def test_logprobs(client: ollama.Client) -> None:
    whole = client.chat(**ask("WORDS"), logprobs=True, top_logprobs=2)
    assert [one.token for one in whole.logprobs or ()][:2] == ["one", " two"]
    assert [len(one.top_logprobs or ()) for one in whole.logprobs or ()][0] == 2
    parts = list(client.chat(**ask("WORDS"), logprobs=True, stream=True))
    assert [one.token for part in parts for one in part.logprobs or ()] == [one.token for one in whole.logprobs or ()]


def test_a_conversation_with_tools(client: ollama.Client) -> None:
    asked = ask("WEATHER in Oslo?")
    answer = client.chat(**asked, tools=[look])
    assert answer.message.tool_calls
    turns = [*asked["messages"], answer.message, {"role": "tool", "tool_name": "look", "content": "Rain. WORDS"}]
    assert client.chat("fake", turns, tools=[look]).done_reason == "stop"


def test_images_are_refused_by_name(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="does not take images"):
        client.generate("fake", "x", images=[b"\x89PNG"])
    with pytest.raises(ollama.ResponseError, match="does not take images"):
        client.chat("fake", [{"role": "user", "content": "x", "images": [b"\x89PNG"]}])


@pytest.mark.anyio
async def test_every_method_of_the_async_client(fake: RunningServer) -> None:
    client = ollama.AsyncClient(host=fake.url)
    try:
        assert (await client.chat(**ask("WORDS"))).message.content == "one two three four five"
        parts = [part async for part in await client.chat(**ask("WORDS"), stream=True)]
        assert "".join(part.message.content or "" for part in parts) == "one two three four five"
        assert (await client.generate("fake", "WORDS")).response == "one two three four five"
        assert [part.done async for part in await client.generate("fake", "WORDS", stream=True)][-1]
        assert (await client.list()).models[0].model == "fake:latest"
        assert (await client.ps()).models[0].model == "fake:latest"
        assert (await client.show("fake")).details
        assert (await client.pull("fake")).status == "success"
        assert [step.status async for step in await client.pull("fake", stream=True)][-1] == "success"
        assert (await client.create("async", from_="fake")).status == "success"
        assert (await client.copy("async", "async-2")).status == "success"
        for name in ("async", "async-2"):
            assert (await client.delete(name)).status == "success"
        for call in (client.delete("async"), client.push("fake"), client.show("async")):
            with pytest.raises(ollama.ResponseError):
                await call
    finally:
        await client._client.aclose()


class Weather(BaseModel):
    """The weather at a place."""

    place: str
    degrees: int


class TestStarter:
    """SmolLM2 on llama.cpp."""

    @pytest.fixture
    def starter(self, llamacpp: RunningServer) -> Iterator[ollama.Client]:
        with ollama_client(llamacpp.url) as client:
            yield client

    def test_context_is_the_conversation(self, starter: ollama.Client) -> None:
        greedy = {"temperature": 0, "num_predict": 12}
        first = starter.generate("m", "Name the capital of France.", options=greedy)
        turns = [
            {"role": "user", "content": "Name the capital of France."},
            {"role": "assistant", "content": first.response},
            {"role": "user", "content": "And of Spain?"},
        ]
        by_context = starter.generate("m", "And of Spain?", context=first.context, options=greedy)
        by_turns = starter.chat("m", turns, options=greedy)
        assert by_context.response == by_turns.message.content
        assert by_context.prompt_eval_count == by_turns.prompt_eval_count

    def test_a_template_like_the_models_own(self, starter: ollama.Client) -> None:
        template = (
            "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"
            "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}<|im_end|>\n"
        )
        asked = {"system": "You are terse.", "options": {"temperature": 0, "num_predict": 12}}
        own = starter.generate("m", "Name the capital of France.", template=template, **asked)
        assert own.response == starter.generate("m", "Name the capital of France.", **asked).response

    def test_structured(self, starter: ollama.Client) -> None:
        asked = [{"role": "user", "content": "The weather in Oslo, as JSON."}]
        answer = starter.chat("m", asked, format=Weather.model_json_schema(), options={"temperature": 0})
        assert Weather.model_validate_json(answer.message.content or "")

    def test_every_option(self, starter: ollama.Client) -> None:
        options = ollama.Options(
            numa=False, num_ctx=512, num_batch=64, num_gpu=0, main_gpu=0, low_vram=False, use_mmap=True, num_thread=2,
            num_keep=4, seed=7, num_predict=6, top_k=20, top_p=0.9, tfs_z=1.0, typical_p=1.0, repeat_last_n=32,
            temperature=0.7, repeat_penalty=1.1, presence_penalty=0.1, frequency_penalty=0.1, mirostat=0,
            mirostat_tau=5.0, mirostat_eta=0.1, penalize_newline=True, stop=["###"],
        )  # fmt: skip
        first, second = (starter.generate("m", "Once", raw=True, options=options) for _ in range(2))
        assert first.response == second.response
        assert first.eval_count == 6
        assert first.done_reason == "length"
