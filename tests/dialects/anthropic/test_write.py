"""Messages stream events and the message object, judged by the official SDK's own types and accumulator."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import EngineFailure
from dragoman.core.events import Failed, Finished, PartDelta, PartEnd, PartStart, PromptProgress, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.operations import Counted
from dragoman.core.usage import Usage
from dragoman.dialects.anthropic.signature import carried, sign
from dragoman.dialects.anthropic.write import PING, MessageWriter, write_count
from tests.dialects.answers import CONTEXT, Script, scripts, written

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def stream(script: Script, **options: bool) -> list[dict[str, Any]]:
    """The events of a stream without pings; each frame is named after its type."""
    frames = written(MessageWriter(CONTEXT, **options), script)
    events = [json.loads(data) for _, data in frames]
    assert [name for name, _ in frames] == [event["type"] for event in events]
    return [event for event in events if event["type"] != "ping"]


def folded(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the SDK's accumulator makes of the events."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        typed = EVENT.validate_python(event)
        snapshot = accumulate_event(event=typed, current_snapshot=snapshot, json_bufs=buffers)
    return snapshot.to_dict()


def whole(script: Script, **options: bool) -> dict[str, Any]:
    body = MessageWriter(CONTEXT, **options).whole(script.answer)
    return Message.model_validate_json(body, strict=True).to_dict()


@settings(deadline=None, max_examples=40)
@given(script=scripts(), omit=st.booleans())
def test_folded_stream_equals_whole(script: Script, omit: bool) -> None:
    assert folded(stream(script, omit_thinking=omit)) == whole(script, omit_thinking=omit) | {"stop_details": None}


@settings(deadline=None, max_examples=40)
@given(script=scripts())
def test_event_grammar(script: Script) -> None:
    events = stream(script)
    assert events[0]["type"] == "message_start"
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    opened = -1
    is_open = False
    for event in events[1:-2]:
        kind = event["type"]
        if kind == "content_block_start":
            assert not is_open
            opened, is_open = opened + 1, True
        assert is_open
        assert event["index"] == opened
        if kind == "content_block_stop":
            is_open = False
    assert not is_open


def script_of(parts: tuple[AnswerPart, ...], finish: Finish) -> Script:
    usage = Usage(9, 3, 4)
    events: list[Any] = [Started(0, usage.prompt_tokens, usage.cached_tokens)]
    for index, part in enumerate(parts):
        events.append(PartStart(0, index, part.kind, part.id, part.name))
        events.append(PartDelta(0, index, part.text, (1,)))
        events.append(PartEnd(0, index))
    events.append(Finished(0, finish, usage))
    return Script(tuple(events), Answer((Choice(index=0, parts=parts, finish=finish, usage=usage),)))


@pytest.mark.parametrize(
    ("finish", "reason", "sequence"),
    [
        (Finish(FinishReason.EOS), "end_turn", None),
        (Finish(FinishReason.NONE), "end_turn", None),
        (Finish(FinishReason.LENGTH), "max_tokens", None),
        (Finish(FinishReason.CONTEXT), "max_tokens", None),
        (Finish(FinishReason.TOOL_CALLS), "tool_use", None),
        (Finish(FinishReason.STOP, "lo wo"), "stop_sequence", "lo wo"),
    ],
)
def test_cases_7_and_18_stop_reasons(finish: Finish, reason: str, sequence: str | None) -> None:
    script = script_of((AnswerPart("text", "hel"),), finish)
    assert (whole(script)["stop_reason"], whole(script)["stop_sequence"]) == (reason, sequence)
    delta = stream(script)[-2]
    assert delta["delta"] == {"stop_reason": reason, "stop_sequence": sequence}


def test_case_36_real_usage_at_the_start() -> None:
    first, *_, last, _ = stream(script_of((), Finish(FinishReason.EOS)))
    assert first["message"]["usage"] == {
        "input_tokens": 5,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
    }
    assert last["usage"] == first["message"]["usage"] | {"output_tokens": 3}
    assert MessageTokensCount.model_validate_json(write_count(Counted(9))).input_tokens == 9


def test_empty_answer_has_no_blocks() -> None:
    script = script_of((AnswerPart("text", ""), AnswerPart("reasoning", "")), Finish(FinishReason.EOS))
    assert whole(script)["content"] == []
    assert [event["type"] for event in stream(script)] == ["message_start", "message_delta", "message_stop"]


def test_ping_follows_the_start() -> None:
    frames = MessageWriter(CONTEXT).frames(Started(0, 1))
    assert [frame.event for frame in frames] == ["message_start", "ping"]
    assert frames[1] == PING
    assert json.loads(PING.data) == {"type": "ping"}


def test_tool_use_is_opened_even_without_arguments() -> None:
    events = (
        Started(0, 1),
        PartStart(0, 0, "tool_call", "call_1", "now"),
        PartEnd(0, 0),
        Finished(0, Finish(FinishReason.TOOL_CALLS), Usage(1, 1)),
    )
    [start] = [event for event in stream(Script(events, Answer(()))) if event["type"] == "content_block_start"]
    assert start["content_block"] == {"type": "tool_use", "id": "call_1", "name": "now", "input": {}}
    part = AnswerPart("tool_call", "", "call_1", "now")
    assert whole(script_of((part,), Finish(FinishReason.TOOL_CALLS)))["content"][0]["input"] == {}


def test_whole_arguments_keep_their_numbers() -> None:
    part = AnswerPart("tool_call", '{"n": 12345678901234567890123, "x": 1.10}', "c", "f")
    body = MessageWriter(CONTEXT).whole(script_of((part,), Finish(FinishReason.TOOL_CALLS)).answer)
    assert b'"input":{"n": 12345678901234567890123, "x": 1.10}' in body


@pytest.mark.parametrize(("text", "input_"), [('{"n": ', {}), ('{"n": 1, "m', {"n": 1}), ('{"n": 1}', {"n": 1})])
def test_of_a_cut_call_the_complete_members_are_told(text: str, input_: dict[str, int]) -> None:
    part = AnswerPart("tool_call", text, "c", "f")
    assert whole(script_of((part,), Finish(FinishReason.LENGTH)))["content"][0]["input"] == input_


def test_thinking_blocks_carry_a_signature() -> None:
    script = script_of((AnswerPart("reasoning", "hm"), AnswerPart("text", "ok")), Finish(FinishReason.EOS))
    assert whole(script)["content"][0] == {"type": "thinking", "thinking": "hm", "signature": sign()}
    kinds = [event["delta"]["type"] for event in stream(script) if event["type"] == "content_block_delta"]
    assert kinds == ["thinking_delta", "signature_delta", "text_delta"]


def test_omitted_thinking_travels_in_the_signature() -> None:
    script = script_of((AnswerPart("reasoning", "hm ünd"),), Finish(FinishReason.EOS))
    [block] = whole(script, omit_thinking=True)["content"]
    assert block["thinking"] == ""
    assert carried(block["signature"]) == "hm ünd"
    deltas = [event["delta"] for event in stream(script, omit_thinking=True) if event["type"] == "content_block_delta"]
    assert [delta["type"] for delta in deltas] == ["signature_delta"]


@pytest.mark.parametrize("signature", ["", "EqQBCkYIBBgC", "dragoman1.%%%", "dragoman1./w==", "dragoman1._w=="])
def test_foreign_or_damaged_signatures_carry_nothing(signature: str) -> None:
    assert carried(signature) == ""


@pytest.mark.parametrize("begun", [False, True])
def test_error_in_the_stream_is_one_error_event(begun: bool) -> None:
    writer = MessageWriter(CONTEXT)
    if begun:
        writer.frames(Started(0, 1))
    [frame] = writer.frames(Failed(0, EngineFailure("The engine broke.")))
    assert frame.event == "error"
    assert json.loads(frame.data) == {
        "type": "error",
        "error": {"type": "api_error", "message": "The engine broke."},
        "request_id": "req_abc123",
    }


def test_progress_is_not_written() -> None:
    assert MessageWriter(CONTEXT).frames(PromptProgress(0, 2, 0, 1, 1.0)) == []


def test_foreign_request_ids_are_kept() -> None:
    writer = MessageWriter(msgspec.structs.replace(CONTEXT, request_id='my"id'))
    assert json.loads(writer.frames(Started(0, 1))[0].data)["message"]["id"] == 'msg_my"id'
