"""Chat chunks and the chat.completion object, judged by the official SDK's own types and accumulator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import EngineFailure
from dragoman.core.events import (
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartStart,
    PromptProgress,
    Started,
    UsageUpdate,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.usage import Usage
from dragoman.dialects.openai_chat.write import ChatReply, ChatWriter
from tests.dialects.answers import CONTEXT, Script, entry, scripts, written


def chunks(script: Script, reply: ChatReply) -> list[dict[str, Any]]:
    frames = written(ChatWriter(CONTEXT, reply), script)
    assert all(event == "" for event, _ in frames)
    assert frames[-1][1] == b"[DONE]"
    return [json.loads(data) for _, data in frames[:-1]]


def folded(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the SDK's accumulator makes of the chunks."""
    state = ChatCompletionStreamState()
    for chunk in found:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    return state.current_completion_snapshot.to_dict()


def comparable(body: dict[str, Any]) -> dict[str, Any]:
    """The parts of a completion that the stream carries; an accumulator cannot tell null from empty."""
    choices = []
    for choice in body["choices"]:
        message = choice["message"]
        calls = [
            {
                "id": call["id"],
                "type": call["type"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
            for call in message.get("tool_calls") or []
        ]
        choices.append(
            {
                "index": choice["index"],
                "finish_reason": choice["finish_reason"],
                "role": message["role"],
                "content": message.get("content") or None,
                "refusal": message.get("refusal"),
                "reasoning_content": message.get("reasoning_content"),
                "function_call": message.get("function_call"),
                "tool_calls": calls,
                "logprobs": (choice.get("logprobs") or {}).get("content") or None,
            }
        )
    keys = ("id", "object", "created", "model", "system_fingerprint")
    return {key: body[key] for key in keys} | {"choices": choices, "usage": body.get("usage")}


def whole(script: Script, reply: ChatReply) -> dict[str, Any]:
    body = ChatWriter(CONTEXT, reply).whole(script.answer)
    ChatCompletion.model_validate_json(body, strict=True)
    return json.loads(body)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), n=st.integers(1, 3), logprobs=st.booleans(), running=st.booleans())
def test_folded_stream_equals_whole(data: st.DataObject, n: int, logprobs: bool, running: bool) -> None:
    script = data.draw(scripts(n=n, logprobs=logprobs))
    reply = ChatReply(n=n, include_usage=True, running_usage=running, logprobs=logprobs)
    assert comparable(folded(chunks(script, reply))) == comparable(whole(script, reply))


@settings(deadline=None, max_examples=40)
@given(script=scripts())
def test_every_chunk_is_typed_and_complete(script: Script) -> None:
    for chunk in chunks(script, ChatReply()):
        ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True)
        assert chunk["object"] == "chat.completion.chunk"
        assert "usage" not in chunk
        [choice] = chunk["choices"]
        assert {"index", "delta", "logprobs", "finish_reason"} == set(choice)


def two_calls() -> Script:
    events = (
        Started(0, 5),
        PartStart(0, 0, "tool_call", "call_a", "look"),
        PartDelta(0, 0, '{"place":', (1,)),
        PartDelta(0, 0, '"Oslo"}', (2,)),
        PartEnd(0, 0),
        PartStart(0, 1, "tool_call", "call_b", "look"),
        PartDelta(0, 1, '{"place":"Rome"}', (3,)),
        PartEnd(0, 1),
        Finished(0, Finish(FinishReason.TOOL_CALLS), Usage(5, 4)),
    )
    parts = (
        AnswerPart("tool_call", '{"place":"Oslo"}', "call_a", "look"),
        AnswerPart("tool_call", '{"place":"Rome"}', "call_b", "look"),
    )
    return Script(
        events, Answer((Choice(index=0, parts=parts, finish=Finish(FinishReason.TOOL_CALLS), usage=Usage(5, 4)),))
    )


def test_case_1_shape_of_the_first_tool_delta() -> None:
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(two_calls(), ChatReply())]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0] == {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look", "arguments": ""}}
    assert calls[1] == {"index": 0, "function": {"arguments": '{"place":'}}
    assert calls[2] == {"index": 0, "function": {"arguments": '"Oslo"}'}}


def test_case_6_parallel_calls_have_their_own_index_and_id() -> None:
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(two_calls(), ChatReply())]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [call["index"] for call in calls] == [0, 0, 0, 1, 1]
    assert [call["id"] for call in calls if "id" in call] == ["call_a", "call_b"]


def test_content_is_null_beside_calls_only() -> None:
    message = whole(two_calls(), ChatReply())["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"place":"Oslo"}'}
    empty = Answer((Choice(index=0, parts=(), finish=Finish(FinishReason.EOS), usage=Usage(1, 1)),))
    assert json.loads(ChatWriter(CONTEXT, ChatReply()).whole(empty))["choices"][0]["message"]["content"] == ""


def test_legacy_functions_are_answered_as_function_call() -> None:
    script = two_calls()
    one = Script(
        (*script.events[:5], script.events[-1]),
        Answer(
            (
                Choice(
                    index=0,
                    parts=script.answer.choices[0].parts[:1],
                    finish=Finish(FinishReason.TOOL_CALLS),
                    usage=Usage(5, 4),
                ),
            )
        ),
    )
    reply = ChatReply(legacy_calls=True)
    message = whole(one, reply)["choices"][0]
    assert message["finish_reason"] == "function_call"
    assert message["message"]["function_call"] == {"name": "look", "arguments": '{"place":"Oslo"}'}
    stream = folded(chunks(one, reply))
    assert stream["choices"][0]["message"]["function_call"] == {"name": "look", "arguments": '{"place":"Oslo"}'}


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (FinishReason.EOS, "stop"),
        (FinishReason.STOP, "stop"),
        (FinishReason.NONE, "stop"),
        (FinishReason.LENGTH, "length"),
        (FinishReason.CONTEXT, "length"),
        (FinishReason.TOOL_CALLS, "tool_calls"),
    ],
)
def test_case_7_finish_reasons(reason: FinishReason, word: str) -> None:
    script = Script(
        (Started(0, 1), Finished(0, Finish(reason), Usage(1, 1))),
        Answer((Choice(index=0, parts=(), finish=Finish(reason), usage=Usage(1, 1)),)),
    )
    assert whole(script, ChatReply())["choices"][0]["finish_reason"] == word
    assert chunks(script, ChatReply())[-1]["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": word,
    }


def thought_only() -> Script:
    parts = (AnswerPart("reasoning", "so the"),)
    events = (
        Started(0, 3),
        PartStart(0, 0, "reasoning"),
        PartDelta(0, 0, "so the", (1, 2)),
        PartEnd(0, 0),
        Finished(0, Finish(FinishReason.LENGTH), Usage(3, 2, 0, 2)),
    )
    finish = Finish(FinishReason.LENGTH)
    return Script(events, Answer((Choice(index=0, parts=parts, finish=finish, usage=Usage(3, 2, 0, 2)),)))


def test_case_16_a_cut_thought_stays_reasoning() -> None:
    body = whole(thought_only(), ChatReply())
    assert body["choices"][0]["message"]["reasoning_content"] == "so the"
    assert body["choices"][0]["message"]["content"] == ""
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert folded(chunks(thought_only(), ChatReply()))["choices"][0]["message"]["content"] == ""


def test_case_20_usage_only_when_asked_for() -> None:
    script = two_calls()
    assert all("usage" not in chunk for chunk in chunks(script, ChatReply()))
    *earlier, last = chunks(script, ChatReply(include_usage=True))
    assert all(chunk["usage"] is None for chunk in earlier)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 4,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def test_running_usage_grows_on_every_chunk() -> None:
    found = chunks(two_calls(), ChatReply(running_usage=True))
    assert [chunk["usage"]["completion_tokens"] for chunk in found] == [0, 0, 1, 2, 2, 3, 4]
    assert all(chunk["usage"]["prompt_tokens"] in (0, 5) for chunk in found)
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_usage_update_replaces_the_running_count() -> None:
    events = (Started(0, 5), UsageUpdate(0, Usage(5, 3)), PartStart(0, 0, "text"), PartDelta(0, 0, "a", (1,)))
    writer = ChatWriter(CONTEXT, ChatReply(running_usage=True))
    last = [frame for event in events for frame in writer.frames(event)][-1]
    assert json.loads(last.data)["usage"]["completion_tokens"] == 4


def test_role_chunks_come_first_and_in_order_of_index() -> None:
    writer = ChatWriter(CONTEXT, ChatReply(n=3))
    frames = writer.frames(Started(2, 4))
    first = [json.loads(frame.data)["choices"][0] for frame in frames]
    assert [choice["index"] for choice in first] == [0, 1, 2]
    assert all(choice["delta"] == {"role": "assistant", "content": ""} for choice in first)
    assert writer.frames(Started(0, 4)) == []


def test_logprobs_ride_on_the_chunk_of_their_text() -> None:
    writer = ChatWriter(CONTEXT, ChatReply(logprobs=True))
    writer.frames(Started(0, 1))
    writer.frames(PartStart(0, 0, "text"))
    assert writer.frames(PartDelta(0, 0, "é", (1,))) == []
    first = entry("é".encode(), -0.1, (entry("é".encode(), -0.1), entry(b"e", -9999.0, token=8)))
    [frame] = writer.frames(Logprobs(0, (first,)))
    choice = json.loads(frame.data)["choices"][0]
    assert choice["delta"] == {"content": "é"}
    [token] = choice["logprobs"]["content"]
    assert token == {
        "token": "é",
        "bytes": [0xC3, 0xA9],
        "logprob": -0.1,
        "id": 7,
        "piece": "<7>",
        "top_logprobs": [
            {"token": "é", "bytes": [0xC3, 0xA9], "logprob": -0.1, "id": 7, "piece": "<7>"},
            {"token": "e", "bytes": [0x65], "logprob": -9999.0, "id": 8, "piece": "<8>"},
        ],
    }


def test_case_40_text_without_its_logprobs_is_not_lost() -> None:
    writer = ChatWriter(CONTEXT, ChatReply(logprobs=True))
    events = [Started(0, 1), PartStart(0, 0, "text"), PartDelta(0, 0, "a"), PartDelta(0, 0, "b"), PartEnd(0, 0)]
    frames = [frame for event in events for frame in writer.frames(event)]
    deltas = [json.loads(frame.data)["choices"][0]["delta"] for frame in frames]
    assert [delta["content"] for delta in deltas] == ["", "a", "b"]


def test_progress_rides_on_an_empty_chunk() -> None:
    writer = ChatWriter(CONTEXT, ChatReply(include_usage=True))
    writer.frames(Started(0, 40))
    [frame] = writer.frames(PromptProgress(0, 40, 8, 24, 277.6))
    chunk = json.loads(frame.data)
    assert chunk["prompt_progress"] == {"total": 40, "cache": 8, "processed": 24, "time_ms": 278}
    assert chunk["choices"][0]["delta"] == {}
    ChatCompletionChunk.model_validate(chunk)


@pytest.mark.parametrize("begun", [False, True])
def test_error_in_the_stream_is_one_envelope(begun: bool) -> None:
    writer = ChatWriter(CONTEXT, ChatReply())
    if begun:
        writer.frames(Started(0, 1))
    [frame] = writer.frames(Failed(0, EngineFailure("The engine broke.")))
    assert json.loads(frame.data)["error"]["message"] == "The engine broke."


def test_prompt_is_counted_once_for_n_answers() -> None:
    choices = tuple(
        Choice(index=i, parts=(), finish=Finish(FinishReason.EOS), usage=Usage(10, 2, 9 if i else 0)) for i in range(3)
    )
    usage = json.loads(ChatWriter(CONTEXT, ChatReply(n=3)).whole(Answer(choices)))["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 6, 16)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


def test_unknown_engine_build_is_null() -> None:
    import msgspec

    card = msgspec.structs.replace(CONTEXT.card, engine_build="")
    writer = ChatWriter(msgspec.structs.replace(CONTEXT, card=card), ChatReply())
    assert json.loads(writer.frames(Started(0, 1))[0].data)["system_fingerprint"] is None
