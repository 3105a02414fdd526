"""Messages stream events and the message object, judged by the official SDK's own types and accumulator."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from anthropic.lib.streaming._beta_messages import accumulate_event as accumulate_beta
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaMessageTokensCount, BetaRawMessageStreamEvent
from httpx2 import Headers
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.edits import AppliedEdit, ThinkingEdit, ToolUseEdit
from dragoman.core.errors import EngineFailure
from dragoman.core.events import Failed, Finished, PartDelta, PartEnd, PartStart, PromptProgress, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.operations import Counted
from dragoman.core.signatures import Signatures
from dragoman.core.usage import Usage
from dragoman.dialects.anthropic.write import PING, MessageWriter, ReplyRules, write_count, write_edited_count
from tests.dialects.answers import CONTEXT, Script, scripts, written

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
BETA_EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)


SIGNATURES = Signatures(b"k" * 32)
SIGNED = msgspec.structs.replace(CONTEXT, signer=SIGNATURES.signer(CONTEXT.card.id))
EDITS = (AppliedEdit(ThinkingEdit(1), 2, 30), AppliedEdit(ToolUseEdit(over_uses=0), 3, 40))


def writer_of(**options: Any) -> MessageWriter:
    context = msgspec.structs.replace(SIGNED, edits=EDITS if options.get("report_edits") else ())
    return MessageWriter(context, ReplyRules(**{"max_tokens": 3, **options}))


def stream(script: Script, **options: Any) -> list[dict[str, Any]]:
    """The events of a stream without pings; each frame is named after its type."""
    frames = written(writer_of(**options), script)
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


def whole(script: Script, **options: Any) -> dict[str, Any]:
    body = writer_of(**options).whole(script.answer)
    return Message.model_validate_json(body, strict=True).to_dict()


@settings(deadline=None, max_examples=40)
@given(script=scripts(), omit=st.booleans(), limit=st.integers(1, 20))
def test_folded_stream_equals_whole(script: Script, omit: bool, limit: int) -> None:
    options = {"omit_thinking": omit, "max_tokens": limit}
    assert folded(stream(script, **options)) == whole(script, **options) | {"stop_details": None}


@settings(deadline=None, max_examples=20)
@given(script=scripts(), omit=st.booleans())
def test_folded_beta_stream_equals_whole_with_its_edits(script: Script, omit: bool) -> None:
    options = {"omit_thinking": omit, "report_edits": True}
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in stream(script, **options):
        typed = BETA_EVENT.validate_python(event)
        snapshot = accumulate_beta(event=typed, current_snapshot=snapshot, json_bufs=buffers, request_headers=Headers())
    body = BetaMessage.model_validate_json(writer_of(**options).whole(script.answer), strict=True)
    assert snapshot.to_dict() == body.to_dict() | {"stop_details": None}
    assert body.context_management is not None
    assert [edit.cleared_input_tokens for edit in body.context_management.applied_edits] == [30, 40]


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
        (Finish(FinishReason.CONTEXT), "model_context_window_exceeded", None),
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
    assert last["usage"] == first["message"]["usage"] | {
        "output_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 0},
    }
    assert MessageTokensCount.model_validate_json(write_count(Counted(9))).to_dict() == {"input_tokens": 9}
    edited = BetaMessageTokensCount.model_validate_json(write_edited_count(Counted(9, 12)))
    assert edited.to_dict() == {"input_tokens": 9, "context_management": {"original_input_tokens": 12}}


@pytest.mark.parametrize(
    ("prompt", "limit", "reason"),
    [
        (4093, 4, "model_context_window_exceeded"),
        (4093, 3, "max_tokens"),
        (4092, 4, "max_tokens"),
    ],
)
def test_a_limit_beyond_the_window_is_the_windows(prompt: int, limit: int, reason: str) -> None:
    usage = Usage(prompt, 3)
    finish = Finish(FinishReason.LENGTH)
    part = AnswerPart("text", "hel")
    answer = Answer((Choice(index=0, parts=(part,), finish=finish, usage=usage),))
    assert whole(Script((), answer), max_tokens=limit)["stop_reason"] == reason


def test_empty_answer_has_no_blocks() -> None:
    script = script_of((AnswerPart("text", ""), AnswerPart("reasoning", "")), Finish(FinishReason.EOS))
    assert whole(script)["content"] == []
    assert [event["type"] for event in stream(script)] == ["message_start", "message_delta", "message_stop"]


def test_ping_follows_the_start() -> None:
    frames = writer_of().frames(Started(0, 1))
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
    body = writer_of().whole(script_of((part,), Finish(FinishReason.TOOL_CALLS)).answer)
    assert b'"input":{"n": 12345678901234567890123, "x": 1.10}' in body


@pytest.mark.parametrize(("text", "input_"), [('{"n": ', {}), ('{"n": 1, "m', {"n": 1}), ('{"n": 1}', {"n": 1})])
def test_of_a_cut_call_the_complete_members_are_told(text: str, input_: dict[str, int]) -> None:
    part = AnswerPart("tool_call", text, "c", "f")
    assert whole(script_of((part,), Finish(FinishReason.LENGTH)))["content"][0]["input"] == input_


ARGUMENTS = json.dumps(
    {"a": "x\\ny", "l": [1.5, {"b": "zü\U0001f600"}], "t": True, "o": None, "s": ""}, ensure_ascii=False
)
FINE = "fine-grained-tool-streaming-2025-05-14"


@pytest.mark.parametrize("beta", ["", FINE])
@pytest.mark.parametrize("at", range(len(ARGUMENTS) + 1))
def test_a_call_cut_anywhere_is_whole_what_the_stream_folds_to(at: int, beta: str) -> None:
    cut = ARGUMENTS[:at]
    start, deltas = PartStart(0, 0, "tool_call", "c", "f"), [PartDelta(0, 0, piece) for piece in (" \n", *cut)]
    finish = Finish(FinishReason.LENGTH)
    events = (Started(0, 1), start, *deltas, PartEnd(0, 0), Finished(0, finish, Usage(1, 1)))
    answer = script_of((AnswerPart("tool_call", " \n" + cut, "c", "f"),), finish).answer
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in stream(Script(events, answer), partial_strings=bool(beta)):
        typed, headers = BETA_EVENT.validate_python(event), Headers({"anthropic-beta": beta})
        snapshot = accumulate_beta(event=typed, current_snapshot=snapshot, json_bufs=buffers, request_headers=headers)
    [block] = BetaMessage.model_validate_json(writer_of(partial_strings=bool(beta)).whole(answer), strict=True).content
    assert block.to_dict() == snapshot.content[0].to_dict()


def test_a_string_that_was_cut_is_told_to_who_asked_for_fragments() -> None:
    script = script_of((AnswerPart("tool_call", '{"a": "one tw', "c", "f"),), Finish(FinishReason.LENGTH))
    assert whole(script)["content"][0]["input"] == {}
    assert whole(script, partial_strings=True)["content"][0]["input"] == {"a": "one tw"}


def test_thinking_blocks_carry_a_signature() -> None:
    script = script_of((AnswerPart("reasoning", "hm"), AnswerPart("text", "ok")), Finish(FinishReason.EOS))
    block = whole(script)["content"][0]
    assert (block["type"], block["thinking"]) == ("thinking", "hm")
    assert SIGNATURES.verify(block["signature"], model=CONTEXT.card.id, text="hm") == "hm"
    assert SIGNATURES.verify(block["signature"], model=CONTEXT.card.id, text="hum") is None
    kinds = [event["delta"]["type"] for event in stream(script) if event["type"] == "content_block_delta"]
    assert kinds == ["thinking_delta", "signature_delta", "text_delta"]


def test_omitted_thinking_travels_in_the_signature() -> None:
    script = script_of((AnswerPart("reasoning", "hm ünd"),), Finish(FinishReason.EOS))
    [block] = whole(script, omit_thinking=True)["content"]
    assert block["thinking"] == ""
    assert SIGNATURES.verify(block["signature"], model=CONTEXT.card.id) == "hm ünd"
    deltas = [event["delta"] for event in stream(script, omit_thinking=True) if event["type"] == "content_block_delta"]
    assert [delta["type"] for delta in deltas] == ["signature_delta"]


@pytest.mark.parametrize("begun", [False, True])
def test_error_in_the_stream_is_one_error_event(begun: bool) -> None:
    writer = writer_of()
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
    assert writer_of().frames(PromptProgress(0, 2, 0, 1, 1.0)) == []


def test_foreign_request_ids_are_kept() -> None:
    writer = MessageWriter(msgspec.structs.replace(CONTEXT, request_id='my"id'), ReplyRules(max_tokens=1))
    assert json.loads(writer.frames(Started(0, 1))[0].data)["message"]["id"] == 'msg_my"id'
