"""Every method and helper of the official SDK for chat, completions and models, on every engine."""

from __future__ import annotations

import inspect
from typing import Any

import openai
import pytest
from openai.resources.chat.completions import Completions as ChatCompletions
from openai.resources.chat.completions.messages import Messages
from openai.resources.completions import Completions
from openai.resources.models import Models
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel, Field

from dragoman.core.errors import NotSupported
from dragoman.prompt.infill import markers_of
from tests.support.running import RunningServer
from tests.wire.clients import MODEL

ASKED: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Say WORDS."}],
    "max_tokens": 6,
    "temperature": 0,
}
# The helper takes an answer that the limit cut for a fault, so these end at the first blank.
ENDED: dict[str, Any] = {**ASKED, "max_tokens": 60, "stop": [" "]}
PROMPT: dict[str, Any] = {"model": MODEL, "prompt": "WORDS and", "max_tokens": 5, "temperature": 0}
# What the tests below call; a method that a new SDK adds has to be put here with a test.
TOUCHED = {
    ChatCompletions: {"create", "parse", "stream", "retrieve", "update", "list", "delete"},
    Messages: {"list"},
    Completions: {"create"},
    Models: {"retrieve", "list", "delete"},
}


class City(BaseModel):
    """A place with people."""

    city: str = Field(max_length=20)
    country: str = Field(max_length=20)


def strict(answer: BaseModel) -> None:
    """As received it is of the SDK's own types, to the letter."""
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)


@pytest.mark.parametrize("resource", TOUCHED, ids=lambda kind: kind.__qualname__)
def test_no_method_is_forgotten(resource: type) -> None:
    named = {
        name
        for name, value in inspect.getmembers(resource)
        if inspect.isfunction(value) and not name.startswith("_") and not name.startswith("with_")
    }
    assert named == TOUCHED[resource]


def test_chat_whole_and_stream(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**ASKED, seed=1)
    strict(whole)
    assert (whole.object, len(whole.choices)) == ("chat.completion", 1)
    assert whole.choices[0].finish_reason in ("stop", "length")
    with client.chat.completions.create(**ASKED, seed=1, stream=True) as chunks:
        seen = list(chunks)
    assert all(isinstance(chunk, ChatCompletionChunk) and chunk.usage is None for chunk in seen)
    assert {chunk.id for chunk in seen} == {seen[0].id}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in seen) == whole.choices[0].message.content


def test_chat_stream_helper(client: openai.OpenAI) -> None:
    kinds: list[str] = []
    with client.chat.completions.stream(**ENDED, stream_options={"include_usage": True}) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "content.delta":
                assert event.snapshot.endswith(event.delta)
        final = stream.get_final_completion()
    assert kinds.count("content.done") == 1
    assert {"chunk", "content.delta"} <= set(kinds)
    whole = client.chat.completions.create(**ENDED)
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.usage is not None
    assert final.usage.completion_tokens == whole.usage.completion_tokens


def test_running_counts(client: openai.OpenAI) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    with client.chat.completions.create(**ASKED, stream=True, stream_options=options) as chunks:
        seen = list(chunks)
    counts = [chunk.usage.completion_tokens for chunk in seen]
    assert counts == sorted(counts)
    assert counts[-1] > 0
    assert seen[-1].choices == []
    assert seen[-1].usage.total_tokens == seen[-1].usage.prompt_tokens + counts[-1]


def test_several_choices(client: openai.OpenAI) -> None:
    asked = {**ASKED, "temperature": 1, "seed": 5, "n": 2}
    whole = client.chat.completions.create(**asked)
    with client.chat.completions.create(**asked, stream=True) as chunks:
        texts = ["", ""]
        for chunk in chunks:
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert all(texts)


def test_log_probabilities(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**ASKED, logprobs=True, top_logprobs=3)
    strict(answer)
    entries = answer.choices[0].logprobs.content
    assert entries
    assert all(len(entry.top_logprobs) == 3 and entry.logprob <= 0 for entry in entries)
    assert all(entry.top_logprobs[0].logprob >= entry.top_logprobs[-1].logprob for entry in entries)


def test_raw_and_streaming_responses(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(**ASKED)
    assert raw.status_code == 200
    assert raw.request_id
    assert isinstance(raw.parse(), ChatCompletion)
    with client.chat.completions.with_streaming_response.create(**ASKED) as reply:
        assert reply.parse().choices
    with client.completions.with_streaming_response.create(**PROMPT, stream=True) as reply:
        lines = [line for line in reply.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


def test_every_neutral_field(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        **ASKED,
        metadata={"run": "1"},
        modalities=["text"],
        prediction={"type": "content", "content": "one two"},
        prompt_cache_key="key",
        prompt_cache_options={"mode": "implicit"},
        prompt_cache_retention="in_memory",
        safety_identifier="me",
        service_tier="auto",
        store=True,
        user="me",
        verbosity="low",
        presence_penalty=0,
        frequency_penalty=0,
        logit_bias={},
        extra_body={"session_id": "s", "options": {"top_k": 3, "num_ctx": 2048}},
    )
    assert answer.choices[0].message.content


def test_nothing_is_stored(client: openai.OpenAI) -> None:
    stored = client.chat.completions
    assert list(stored.list()) == []
    for call in (
        lambda: stored.retrieve("chatcmpl-x"),
        lambda: stored.update("chatcmpl-x", metadata={"a": "b"}),
        lambda: stored.delete("chatcmpl-x"),
        lambda: stored.messages.list("chatcmpl-x"),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            call()
        assert (caught.value.type, caught.value.param) == ("invalid_request_error", "completion_id")


def test_completions(client: openai.OpenAI) -> None:
    whole = client.completions.create(**PROMPT)
    strict(whole)
    assert whole.object == "text_completion"
    with client.completions.create(**PROMPT, stream=True) as chunks:
        assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    echoed = client.completions.create(**PROMPT, echo=True)
    assert echoed.choices[0].text == PROMPT["prompt"] + whole.choices[0].text


def test_completions_of_batches(client: openai.OpenAI) -> None:
    for prompts in (["WORDS", "EMOJI"], [[5, 6], [7]]):
        answer = client.completions.create(**{**PROMPT, "prompt": prompts}, n=2, logprobs=1)
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        for choice in answer.choices:
            figures = choice.logprobs
            sizes = {len(figures.tokens), len(figures.token_logprobs), len(figures.top_logprobs)}
            assert sizes == {len(figures.text_offset)}
    assert client.completions.create(**{**PROMPT, "prompt": [5, 6, 7]}).usage.prompt_tokens == 3


def test_a_prompt_is_scored(client: openai.OpenAI) -> None:
    """As lm-evaluation-harness asks."""
    answer = client.completions.create(
        model=MODEL, prompt=[[5, 6, 7], [8, 9]], echo=True, logprobs=1, max_tokens=1, temperature=0
    )
    for choice, size in zip(answer.choices, (3, 2), strict=True):
        figures = choice.logprobs
        assert figures is not None
        assert len(figures.token_logprobs) == len(figures.top_logprobs) == size + 1
        assert (figures.token_logprobs[0], figures.top_logprobs[0]) == (None, None)
        told = list(zip(figures.token_logprobs, figures.top_logprobs, strict=True))[1:]
        assert all(value <= max(top.values()) for value, top in told)


def test_best_of(client: openai.OpenAI) -> None:
    asked = {**PROMPT, "temperature": 1, "seed": 1}
    answer = client.completions.create(**asked, best_of=3, n=1)
    assert isinstance(answer, Completion)
    assert [choice.index for choice in answer.choices] == [0]
    assert answer.usage.completion_tokens >= 3
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**asked, best_of=3, n=1, stream=True)
    assert caught.value.param == "best_of"


def test_a_gap_needs_markers(client: openai.OpenAI, server: RunningServer) -> None:
    try:
        markers_of(server.room.model.tokenizer)
    except NotSupported:
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(**PROMPT, suffix="end")
        assert caught.value.param == "suffix"
    else:
        answer = client.completions.create(**PROMPT, suffix="end")
        assert answer.choices[0].finish_reason in ("stop", "length")
        assert answer.usage.prompt_tokens > client.completions.create(**PROMPT).usage.prompt_tokens


def test_models(client: openai.OpenAI, server: RunningServer) -> None:
    card = server.room.model.card
    first = client.models.list().data[0]
    assert (first.id, first.status["value"], first.context_length) == (card.id, "loaded", card.context_length)
    assert card.engine == "fake" or first.generation_defaults["temperature"] >= 0
    assert client.models.retrieve(card.id).id == card.id
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nobody/nothing")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.APIStatusError) as refused:
        client.models.delete(card.id)
    assert refused.value.status_code == 405


def test_a_schema_is_parsed(client: openai.OpenAI, server: RunningServer) -> None:
    if server.room.model.card.engine == "fake":
        pytest.skip("the scripted engine says its lines")
    asked = {**ASKED, "messages": [{"role": "user", "content": "Name a city as JSON."}], "max_tokens": 120}
    # The starter may go on for long inside a text; a bound in the schema makes it end.
    parsed = client.chat.completions.parse(**asked, response_format=City).choices[0].message.parsed
    assert isinstance(parsed, City)


def test_errors_have_all_fields(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{**ASKED, "temperature": 9})
    assert caught.value.body == {
        "message": caught.value.body["message"],
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "invalid_value",
    }
    assert caught.value.request_id


@pytest.mark.anyio
async def test_the_async_client(server: RunningServer) -> None:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        whole = await client.chat.completions.create(**ENDED)
        async with client.chat.completions.stream(**ENDED) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.content == whole.choices[0].message.content
        text = (await client.completions.create(**PROMPT)).choices[0].text
        pieces = [chunk.choices[0].text async for chunk in await client.completions.create(**PROMPT, stream=True)]
        assert "".join(pieces) == text
        assert [model.id async for model in client.models.list()][0] == whole.model
