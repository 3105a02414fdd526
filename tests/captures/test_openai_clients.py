"""What real clients of the OpenAI wires sent, replayed against a whole server: all of it is answered as they expect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.dialects.wire import captures
from tests.wire.scripts import scripted

CLIENTS = ("aider", "aiperf", "cline", "continue-cli", "guidellm", "llm", "lm-eval", "opencode", "pi")
RECORDED = {
    name: wire
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses")
    for name, wire in captures(path).items()
}
SCRIPT = {"context_length": 100_000, "rules": [{"pieces": ["The", " answer", "."]}]}
JSON_SCRIPT = {**SCRIPT, "rules": [{"pieces": ['{"name": "Rex", "age": 3}']}]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("captures"), SCRIPT) as client:
        yield client


def data_lines(reply: httpx2.Response) -> list[str]:
    return [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]


def check_chat_stream(reply: httpx2.Response, body: dict[str, Any]) -> None:
    *lines, last = data_lines(reply)
    assert last == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(line, strict=True) for line in lines]
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] in ("stop", "length")
    wanted = bool((body.get("stream_options") or {}).get("include_usage"))
    assert (chunks[-1].usage is not None) is wanted


def check_response_stream(reply: httpx2.Response) -> None:
    events = [json.loads(line) for line in data_lines(reply)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] in ("response.completed", "response.incomplete")


def check_completion(reply: httpx2.Response, body: dict[str, Any]) -> None:
    if body.get("echo"):
        check_scores(reply.json(), body["prompt"])
    else:
        answer = Completion.model_validate_json(reply.content, strict=True)
        assert [choice.index for choice in answer.choices] == list(range(len(body["prompt"])))


def check_scores(answer: dict[str, Any], prompts: list[list[int]]) -> None:
    """As lm-evaluation-harness reads them: it sums the figures between context and answer and asks whether each token
    was the likeliest. The first token has none: OpenAI's server wrote null there, which its SDK does not know."""
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(prompts)))
    for choice, prompt in zip(answer["choices"], prompts, strict=True):
        figures = choice["logprobs"]
        values, rivals = figures["token_logprobs"], figures["top_logprobs"]
        assert len(prompt) + 1 == len(values) == len(rivals) == len(figures["tokens"]) == len(figures["text_offset"])
        assert (values[0], rivals[0]) == (None, None)
        for token, value, top in zip(figures["tokens"][1:], values[1:], rivals[1:], strict=True):
            assert value <= max(top.values())
            assert token in top


def test_every_client_is_here() -> None:
    assert {name.rsplit("-", 1)[0] for name in RECORDED} == set(CLIENTS)


def within_vocabulary(body: dict[str, Any], size: int) -> dict[str, Any]:
    """Token ids are those of another tokenizer."""
    return {**body, "prompt": [[token % size for token in ids] for ids in body["prompt"]]}


@pytest.mark.parametrize("name", RECORDED)
def test_replay(client: httpx2.Client, name: str) -> None:
    wire = RECORDED[name]
    body = json.loads(wire.body)
    if "response_format" in body:
        pytest.skip("its answer has to be of a form; see below")
    if wire.path == "/v1/completions" and isinstance(body["prompt"][0], list):
        body = within_vocabulary(body, 200)
    reply = client.post(wire.path, json=body, headers=dict(wire.headers))
    assert reply.status_code == 200, reply.text
    assert "x-dragoman-ignored" not in reply.headers
    if wire.path == "/v1/responses":
        check_response_stream(reply)
    elif wire.path == "/v1/completions":
        check_completion(reply, body)
    elif body.get("stream"):
        check_chat_stream(reply, body)
    else:
        assert ChatCompletion.model_validate_json(reply.content, strict=True).choices[0].message.content


def test_replay_of_a_schema(tmp_path_factory: pytest.TempPathFactory) -> None:
    [wire] = [wire for wire in RECORDED.values() if b"response_format" in wire.body]
    with scripted(tmp_path_factory.mktemp("schema"), JSON_SCRIPT, grammar_degrade=True) as client:
        reply = client.post(wire.path, content=wire.body, headers={"content-type": "application/json"})
    assert reply.status_code == 200, reply.text
    check_chat_stream(reply, json.loads(wire.body))
