"""The official OpenAI SDK against the scripted engine: objects, streams, tools, errors."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.support.running import RunningServer
from tests.wire.clients import openai_client

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["place"],
        },
    },
}


@pytest.fixture
def client(fake: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(fake.url) as client:
        yield client


def ask(text: str) -> dict:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}


def test_chat_whole(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**ask("WORDS"))
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("one two three four five", "stop")
    assert answer.model == "fake"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 6


def test_chat_stream_folds_to_the_whole(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**ask("WORDS"), stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    whole = client.chat.completions.create(**ask("WORDS"))
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].finish_reason == whole.choices[0].finish_reason
    assert final.usage == whole.usage


def test_case_20_usage_only_when_asked(client: openai.OpenAI) -> None:
    with client.chat.completions.create(**ask("WORDS"), stream=True) as stream:
        chunks = list(stream)
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    with client.chat.completions.create(**ask("WORDS"), stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []


def test_case_01_shape_of_tool_deltas(client: openai.OpenAI) -> None:
    with client.chat.completions.create(**ask("WEATHER in Oslo?"), tools=[LOOK], stream=True) as stream:
        chunks = list(stream)
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert (deltas[0].index, deltas[0].type, deltas[0].function.name) == (0, "function", "look")
    assert deltas[0].id
    assert deltas[0].function.arguments == ""
    assert all(delta.id is None and delta.function.name is None for delta in deltas[1:])
    assert "".join(delta.function.arguments for delta in deltas) == '{"place": "Oslo"}'
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).strip() == "Let me look."


def test_case_02_tools_stream_equals_whole(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**ask("WEATHER in Oslo?"), tools=[LOOK]).choices[0]
    with client.chat.completions.stream(**ask("WEATHER in Oslo?"), tools=[LOOK]) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"
    assert whole.message.content == streamed.message.content
    one, two = (choice.message.tool_calls[0].function for choice in (whole, streamed))
    assert (one.name, one.arguments) == (two.name, two.arguments) == ("look", '{"place": "Oslo"}')


def test_reasoning_is_apart(client: openai.OpenAI) -> None:
    message = client.chat.completions.create(**ask("THINK")).choices[0].message
    assert (message.content, message.reasoning_content) == ("Hi there", "so so")


@pytest.mark.parametrize("stream", [False, True])
def test_case_18_stop_across_tokens(client: openai.OpenAI, stream: bool) -> None:
    asked = {**ask("WORDS"), "stop": ["o thr", "zzz"]}
    if stream:
        with client.chat.completions.create(**asked, stream=True) as chunks:
            seen = list(chunks)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in seen)
        reason = seen[-1].choices[0].finish_reason
    else:
        choice = client.chat.completions.create(**asked).choices[0]
        text, reason = choice.message.content, choice.finish_reason
    assert (text, reason) == ("one tw", "stop")


def test_several_choices(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**ask("WORDS"), n=3)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [
        (index, "one two three four five") for index in range(3)
    ]
    with client.chat.completions.create(**ask("WORDS"), n=3, stream=True) as stream:
        texts = ["", "", ""]
        for chunk in stream:
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == ["one two three four five"] * 3


def test_limit(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(**ask("WORDS"), max_completion_tokens=2, max_tokens=4).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("one two", "length")


def test_logprobs(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(**ask("EMOJI"), logprobs=True, top_logprobs=2).choices[0]
    entries = choice.logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == choice.message.content == "ok😀é한!"
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in entries)


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="x", prompt=["WORDS", "EMOJI"], max_tokens=20)
    assert [choice.text for choice in answer.choices] == ["one two three four five", "ok😀é한!"]
    with client.completions.create(model="x", prompt="WORDS", stream=True) as stream:
        assert "".join(chunk.choices[0].text for chunk in stream) == "one two three four five"


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").object == "model"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nope")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"tool_choice": "required", "tools": [LOOK]}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"n": 0}, "n"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
    ],
)
def test_bad_fields_are_named(client: openai.OpenAI, extra: dict, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{**ask("WORDS"), **extra})
    assert caught.value.param == param
    assert client.chat.completions.create(**ask("WORDS")).choices


def test_case_28_prompt_longer_than_the_window(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ask("word " * 3000))
    assert caught.value.code == "context_length_exceeded"
    assert "2048" in caught.value.message
    choice = client.chat.completions.create(**ask("WORDS"), max_tokens=100_000).choices[0]
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("word", ["ROWFAIL", "STEPFAIL"])
def test_case_34_engine_failure(client: openai.OpenAI, word: str) -> None:
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(**ask(word))
    with client.chat.completions.create(**ask(word), stream=True) as stream, pytest.raises(openai.APIError):
        list(stream)
    assert client.chat.completions.create(**ask("WORDS")).choices[0].message.content == "one two three four five"


def test_ignored_fields_are_listed(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(**ask("WORDS"), extra_body={"sparkle": 1})
    assert raw.headers["x-dragoman-ignored"] == "sparkle"


def test_a_second_turn_reuses_the_first(client: openai.OpenAI) -> None:
    history = [{"role": "user", "content": "WORDS please. " + "The same long beginning. " * 20}]
    first = client.chat.completions.create(model="x", messages=history)
    history += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "More."},
    ]
    second = client.chat.completions.create(model="x", messages=history)
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= 0.9 * first.usage.prompt_tokens
    assert second.choices[0].message.content == "one two three four five"


def test_several_answers_cost_one_prompt(fake: RunningServer, client: openai.OpenAI) -> None:
    before = fake.stats()
    asked = ask("WORDS for several answers. " + "Another long beginning. " * 20)
    answer = client.chat.completions.create(**asked, n=4)
    assert {choice.message.content for choice in answer.choices} == {"one two three four five"}
    assert fake.stats().prompt_tokens - before.prompt_tokens < answer.usage.prompt_tokens + 40


def test_scoring_a_prompt(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="x", prompt="WORDS and more", echo=True, logprobs=1, max_tokens=1)
    choice = answer.choices[0]
    figures = choice.logprobs
    assert figures.tokens == ["<|bos|>", *"WORDS and more", "one"]
    assert choice.text == "".join(figures.tokens)
    assert figures.token_logprobs[0] is None
    assert all(value <= 0 for value in figures.token_logprobs[1:])
    assert figures.text_offset == [0, *range(7, 7 + 15)]
