"""What the OpenAPI document says of replies is what is written: each is read by its shape, and nothing is left over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import EngineFailure
from dragoman.core.events import Failed, PromptProgress
from dragoman.core.operations import Counted
from dragoman.core.responses import KeptResponse, ResponseDeleted
from dragoman.core.signatures import Signatures
from dragoman.core.vectors import Embedded, Ranked, Reranked
from dragoman.dialects.base import ReplyContext, SmallCall, WireRequest
from dragoman.dialects.cohere.read import write_results as write_cohere
from dragoman.dialects.cohere.shape import CohereRerankAnswer
from dragoman.dialects.openai_embeddings.shape import EmbeddingsAnswer
from dragoman.dialects.openai_embeddings.write import write_base64, write_floats, write_native
from dragoman.dialects.openai_responses.body import interrupted
from dragoman.dialects.openai_responses.eventshape import ResponseStreamEvent
from dragoman.dialects.openai_responses.read import read_response
from dragoman.dialects.openai_responses.shape import InputTokens, ItemPage, ResponseDeletion, ResponseObject
from dragoman.dialects.openai_responses.stored import read_delete, read_input_items, replayed
from dragoman.dialects.openai_responses.write import counted
from dragoman.dialects.rerank.read import write_results, write_texts
from dragoman.dialects.rerank.shape import RerankAnswer
from tests.dialects.answers import CARD, Script, scripts
from tests.dialects.wire import post

SIGNER = Signatures(b"k" * 32).signer(CARD.id)
CONTEXT = ReplyContext(card=CARD, created=1_800_000_000, request_id="req_abc", signer=SIGNER)
TOOLS = [
    {"type": "function", "name": "look", "parameters": {"type": "object"}},
    {"type": "custom", "name": "save"},
    {"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "inner"}]},
]
ASKED: list[dict[str, Any]] = [
    {},
    {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"], "instructions": "be brief"},
    {"include": ["message.output_text.logprobs"], "tools": TOOLS, "metadata": {"a": "b"}, "temperature": 0.5},
]
EMBEDDED = Embedded(model="m", vectors=((b"\0\0\x80?" * 2,), (b"\0\0\0@" * 2,)), prompt_tokens=3)
RERANKED = Reranked(model="m", results=(Ranked(1, 2.5), Ranked(0, -1.0)), prompt_tokens=4)


def left_over(read: Any, wire: Any, at: str = "$") -> Iterator[str]:
    """Places of `wire` that `read`, the same after reading by its shape, does not have."""
    if isinstance(wire, dict) and isinstance(read, dict):
        for key, value in wire.items():
            if key in read:
                yield from left_over(read[key], value, f"{at}.{key}")
            else:
                yield f"{at}.{key}"
    elif isinstance(wire, list) and isinstance(read, list) and len(wire) == len(read):
        for index, value in enumerate(wire):
            yield from left_over(read[index], value, f"{at}[{index}]")
    elif read != wire:
        yield at


def check(body: bytes, shape: Any) -> None:
    read = msgspec.to_builtins(msgspec.json.decode(body, type=shape, strict=True))
    assert list(left_over(read, json.loads(body))) == []


def small(call: SmallCall, result: Any) -> bytes:
    body = call.write(result)
    assert isinstance(body, bytes)
    return body


@settings(max_examples=60)
@given(scripts(), st.sampled_from(ASKED))
def test_responses(script: Script, asked: dict[str, Any]) -> None:
    call = read_response(post("/v1/responses", {"input": "x", **asked}))
    writer = call.writer(CONTEXT)
    frames = [frame for event in script.events for frame in writer.frames(event)] + writer.end()
    whole = call.writer(CONTEXT).whole(script.answer)
    check(whole, ResponseObject)
    check(interrupted(whole, 1_800_000_009), ResponseObject)
    for data in (*(frame.data for frame in frames), *(event.data for event in replayed(whole))):
        check(data, ResponseStreamEvent)


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_responses_that_end_badly(end: str) -> None:
    writer = read_response(post("/v1/responses", {"input": "x", "background": True})).writer(CONTEXT)
    frames = writer.queued() + writer.frames(PromptProgress(0, 9, 1, 4, 2.5))
    frames += writer.stopped() if end == "cancelled" else writer.frames(Failed(0, EngineFailure("It broke.")))
    assert frames[-1].event == f"response.{end}"
    for frame in frames:
        check(frame.data, ResponseStreamEvent)


def test_what_is_kept_of_responses() -> None:
    check(counted(Counted(prompt_tokens=5)), InputTokens)
    wire = WireRequest(method="GET", path="/v1/responses/resp_1", params={"response_id": "resp_1"})
    check(small(read_delete(wire), ResponseDeleted("resp_1")), ResponseDeletion)
    kept = KeptResponse(id="resp_1", status="completed", body=b"{}", items=(b'{"id":"msg_1","type":"message"}',))
    check(small(read_input_items(wire), kept), ItemPage)


@pytest.mark.parametrize("write", [write_floats, write_base64, write_native])
def test_embeddings(write: Any) -> None:
    check(write(EMBEDDED), EmbeddingsAnswer)


@pytest.mark.parametrize("documents", [None, ("a", "b")])
def test_rerank(documents: tuple[str, ...] | None) -> None:
    check(write_results(documents, RERANKED), RerankAnswer)
    check(write_texts(documents, RERANKED), RerankAnswer)
    check(write_cohere(documents or ("a", "b"), documents is not None, RERANKED), CohereRerankAnswer)


def test_nothing_left_over_can_fail() -> None:
    with pytest.raises(AssertionError):
        check(b'{"object":"response.input_tokens","input_tokens":1,"more":2}', InputTokens)
    with pytest.raises(msgspec.ValidationError):
        check(b'{"object":"response.input_tokens"}', InputTokens)
