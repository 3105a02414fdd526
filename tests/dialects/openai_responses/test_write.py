"""The typed event stream and the response object, judged by the official SDK's own types and accumulator."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import ContextLengthExceeded, EngineFailure, InvalidField, Overloaded
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartStart,
    PromptProgress,
    Started,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.signatures import Signatures
from dragoman.core.usage import Usage
from dragoman.dialects.base import ReplyContext
from dragoman.dialects.openai_responses.body import interrupted
from dragoman.dialects.openai_responses.read import read_response
from dragoman.dialects.openai_responses.stored import replayed
from tests.dialects.answers import CARD, Script, entry, pieces, scripts, written
from tests.dialects.wire import post

SIGNATURES = Signatures(b"k" * 32)
CONTEXT = ReplyContext(card=CARD, created=1_800_000_000, request_id="req_abc", signer=SIGNATURES.signer(CARD.id))
TOOLS = [
    {"type": "function", "name": "look", "parameters": {"type": "object"}},
    {"type": "custom", "name": "save"},
    {"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "inner"}]},
]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


class Reply:
    """One request's writer, made anew as often as wanted, and what it writes."""

    def __init__(self, **fields: Any) -> None:
        call = read_response(post("/v1/responses", {"input": "x", "tools": TOOLS, **fields}))
        self.make = lambda: call.writer(CONTEXT)

    def stream(self, *events: Event) -> list[dict[str, Any]]:
        writer = self.make()
        return [json.loads(frame.data) for event in events for frame in writer.frames(event)] + [
            json.loads(frame.data) for frame in writer.end()
        ]

    def whole(self, *parts: AnswerPart, finish: FinishReason = FinishReason.EOS) -> dict[str, Any]:
        answer = Answer((Choice(index=0, parts=parts, finish=Finish(finish), usage=Usage(5, 3)),))
        return json.loads(self.make().whole(answer))


def events_of(script: Script, reply: Reply) -> list[dict[str, Any]]:
    found = []
    for name, data in written(reply.make(), script):
        event = json.loads(data)
        assert event["type"] == name
        found.append(event)
    return found


def untimed(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "completed_at": None}


def part(kind: Any, *texts: str, id: str = "", name: str = "", index: int = 0) -> list[Event]:
    return [
        PartStart(0, index, kind, id, name),
        *(PartDelta(0, index, text) for text in texts),
        PartEnd(0, index),
    ]


def done(reason: FinishReason = FinishReason.EOS) -> Finished:
    return Finished(0, Finish(reason), Usage(5, 3, 2, 1))


@settings(max_examples=80, deadline=None)
@given(
    script=scripts(logprobs=True),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "include": st.lists(
                st.sampled_from(["reasoning.encrypted_content", "message.output_text.logprobs"]), unique=True
            ),
            "reasoning": st.sampled_from([{"summary": "auto"}, {"effort": "low"}]),
        },
    ),
)
def test_whole_is_the_fold_of_the_stream(script: Script, fields: dict[str, Any]) -> None:
    reply = Reply(**fields)
    found = events_of(script, reply)
    whole = json.loads(reply.make().whole(script.answer))
    assert untimed(found[-1]["response"]) == untimed(whole)
    done_items = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert done_items == whole["output"]


@settings(max_examples=60, deadline=None)
@given(script=scripts(logprobs=True), logprobs=st.booleans())
def test_every_event_is_typed_numbered_and_folds_in_the_sdk(script: Script, logprobs: bool) -> None:
    found = events_of(script, Reply(include=["message.output_text.logprobs"] if logprobs else []))
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    for event in found:
        typed = EVENT.validate_python(event)
        state.handle_event(typed)
    final = Response.model_validate(found[-1]["response"])
    expected = (
        "incomplete"
        if script.answer.choices[0].finish.reason in (FinishReason.LENGTH, FinishReason.CONTEXT)
        else "completed"
    )
    assert (final.status, found[-1]["type"]) == (expected, f"response.{expected}")
    check_items(found, final)


def check_items(found: list[dict[str, Any]], final: Response) -> None:
    """Deltas of an item add up to its text, and its id is one in all its events."""
    texts: dict[str, str] = {}
    for event in found:
        if "item_id" in event:
            assert event["item_id"] == final.output[event["output_index"]].id
        if event["type"].endswith(".delta"):
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
    for item in final.output:
        assert texts.get(str(item.id), "") == shown(item)


def shown(item: Any) -> str:
    match item.type:
        case "message":
            held = item.content[0]
            return held.text if held.type == "output_text" else held.refusal
        case "reasoning":
            return "".join(one.text for one in item.content or item.summary)
        case "function_call":
            return item.arguments
        case _:
            return item.input


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=30), data=st.data(), ascii=st.booleans())
def test_custom_input_streams_whole_whatever_the_chunks(text: str, data: st.DataObject, ascii: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii)
    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    found = Reply().stream(
        Started(0, 5), *part("tool_call", *data.draw(pieces(arguments)), id="c1", name="save"), done()
    )
    deltas = [event["delta"] for event in found if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == text
    item = found[-1]["response"]["output"][0]
    assert (item["type"], item["name"], item["input"], item["call_id"]) == ("custom_tool_call", "save", text, "c1")


def test_custom_input_is_streamed_and_not_held() -> None:
    texts = ('{"inp', 'ut": "ab', "c\\", 'nd"}')
    found = Reply().stream(Started(0, 5), *part("tool_call", *texts, id="c1", name="save"), done())
    assert [event["delta"] for event in found if event["type"].endswith(".delta")] == ["ab", "c", "\nd"]


def test_custom_arguments_of_another_shape_are_not_lost() -> None:
    found = Reply().stream(Started(0, 5), *part("tool_call", '{"patch": "x"}', id="c1", name="save"), done())
    assert found[-1]["response"]["output"][0]["input"] == '{"patch": "x"}'
    assert [event["delta"] for event in found if event["type"].endswith(".delta")] == ['{"patch": "x"}']


def test_namespaced_calls_are_split_back() -> None:
    item = Reply().whole(AnswerPart("tool_call", "{}", "c1", "ns.inner"))["output"][0]
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "inner", "ns")


def test_a_call_of_no_known_tool_keeps_its_name() -> None:
    item = Reply().whole(AnswerPart("tool_call", "{}", "c1", "other.name"))["output"][0]
    assert item["name"] == "other.name"
    assert "namespace" not in item


def test_a_cut_answer_is_incomplete() -> None:
    parts = (AnswerPart("text", "so"), AnswerPart("tool_call", '{"pl', "c1", "look"))
    body = Reply().whole(*parts, finish=FinishReason.LENGTH)
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [item["status"] for item in body["output"]] == ["completed", "incomplete"]
    assert body["output"][1]["arguments"] == '{"pl'


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineFailure("boom"), "server_error"),
        (Overloaded("full"), "rate_limit_exceeded"),
        (InvalidField("bad", field="x"), "invalid_prompt"),
        (ContextLengthExceeded(9, 8), "context_length_exceeded"),
    ],
)
@pytest.mark.parametrize("begun", [True, False])
def test_a_failure_comes_after_created(error: Any, code: str, begun: bool) -> None:
    writer = Reply().make()
    events: list[Event] = [Started(0, 5), PartStart(0, 0, "text"), PartDelta(0, 0, "so")] if begun else []
    found = [json.loads(frame.data) for event in [*events, Failed(0, error)] for frame in writer.frames(event)]
    assert (found[0]["type"], found[-1]["type"]) == ("response.created", "response.failed")
    last = found[-1]["response"]
    assert (last["status"], last["error"]["code"]) == ("failed", code)
    assert [item["status"] for item in last["output"]] == (["incomplete"] if begun else [])
    assert writer.record().status == "failed"
    Response.model_validate({**last, "error": {**last["error"], "code": "server_error"}})


def test_thoughts_are_shown_once() -> None:
    thought = AnswerPart("reasoning", "so so")
    plain = Reply().whole(thought)["output"][0]
    summary = Reply(reasoning={"summary": "auto"}).whole(thought)["output"][0]
    assert (plain["summary"], plain["content"]) == ([], [{"type": "reasoning_text", "text": "so so"}])
    assert (summary["summary"], "content" in summary) == ([{"type": "summary_text", "text": "so so"}], False)
    assert "encrypted_content" not in plain


def test_thoughts_are_signed_on_demand_unless_cut() -> None:
    reply, thought = Reply(include=["reasoning.encrypted_content"]), AnswerPart("reasoning", "so so")
    signed = reply.whole(thought, AnswerPart("text", "Hi"))["output"][0]["encrypted_content"]
    assert SIGNATURES.verify(signed, model=CARD.id) == "so so"
    assert "encrypted_content" not in reply.whole(thought, finish=FinishReason.LENGTH)["output"][0]


@pytest.mark.parametrize("parts", [["text"], ["text", "tool_call"], ["text", "reasoning", "text"]])
def test_phases_for_agents_only(parts: list[Any]) -> None:
    headers = {"originator": "codex_exec", "user-agent": "codex_exec/0.171.0 (Linux)"}
    call = read_response(post("/v1/responses", {"input": "x"}, headers))
    events = [event for index, kind in enumerate(parts) for event in part(kind, "x", name="f", index=index)]
    finish = FinishReason.TOOL_CALLS if "tool_call" in parts else FinishReason.EOS
    writer = call.writer(CONTEXT)
    frames = [frame for event in [Started(0, 1), *events, done(finish)] for frame in writer.frames(event)]
    added = [json.loads(frame.data)["item"] for frame in frames if frame.event == "response.output_item.added"]
    assert all("phase" not in item for item in added)
    output = json.loads(writer.record().body)["output"]
    expected = ["commentary" if place < len(parts) - 1 else "final_answer" for place, _ in enumerate(parts)]
    assert [(item["type"], item.get("phase")) for item in output if item["type"] == "message"] == [
        ("message", phase) for kind, phase in zip(parts, expected, strict=True) if kind == "text"
    ]
    plain = Reply().stream(Started(0, 1), *events, done(finish))[-1]["response"]["output"]
    assert all("phase" not in item for item in plain)


def test_log_probabilities_ride_on_their_text() -> None:
    events: list[Event] = [
        Started(0, 5),
        PartStart(0, 0, "text"),
        PartDelta(0, 0, "ab", (1,)),
        Logprobs(0, (entry(b"ab", top=(entry(b"x", -2.0),)),)),
        PartDelta(0, 0, "c", (2,)),
        PartEnd(0, 0),
        done(),
    ]
    found = Reply(include=["message.output_text.logprobs"], top_logprobs=1).stream(*events)
    deltas = [event for event in found if event["type"] == "response.output_text.delta"]
    assert [(event["delta"], len(event["logprobs"])) for event in deltas] == [("ab", 1), ("c", 0)]
    [held] = found[-1]["response"]["output"][0]["content"]
    assert [(one["token"], one["top_logprobs"][0]["token"]) for one in held["logprobs"]] == [("ab", "x")]


def test_usage_and_progress() -> None:
    found = Reply(return_progress=True, stream=True).stream(
        Started(0, 5, 2), PromptProgress(0, 5, 2, 4, 1.6), *part("text", "x"), done()
    )
    progress = [event for event in found if "prompt_progress" in event]
    assert progress[0]["type"] == "response.in_progress"
    assert progress[0]["prompt_progress"] == {"total": 5, "cached": 2, "processed": 4, "time_ms": 2}
    assert found[-1]["response"]["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 8,
    }


def test_a_background_response_is_queued_first_and_can_be_stopped() -> None:
    writer = Reply(background=True).make()
    first = [json.loads(frame.data) for frame in writer.queued()]
    then = [json.loads(frame.data) for frame in writer.frames(Started(0, 5))]
    last = [json.loads(frame.data) for frame in writer.stopped()]
    assert [event["type"] for event in first + then + last] == [
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.cancelled",
    ]
    assert [event["response"]["status"] for event in first + then + last] == [
        "queued",
        "queued",
        "in_progress",
        "cancelled",
    ]


@settings(max_examples=40, deadline=None)
@given(script=scripts())
def test_a_replay_of_the_body_ends_in_the_same_response(script: Script) -> None:
    body = Reply().make().whole(script.answer)
    events = replayed(body)
    found = [json.loads(event.data) for event in events]
    assert [event["sequence_number"] for event in found] == [event.number for event in events]
    for event in found:
        EVENT.validate_python(event)
    assert found[-1]["response"] == json.loads(body)
    check_items(found, Response.model_validate(found[-1]["response"]))
    assert [event["item"] for event in found if event["type"] == "response.output_item.done"] == found[-1]["response"][
        "output"
    ]


def test_an_interrupted_response_says_so() -> None:
    writer = Reply(background=True).make()
    for event in (Started(0, 5), PartStart(0, 0, "text"), PartDelta(0, 0, "so")):
        writer.frames(event)
    value = json.loads(interrupted(writer.record().body, 7))
    assert (value["status"], value["error"]["code"], value["completed_at"]) == ("failed", "server_restarted", 7)
    assert value["output"][0]["status"] == "incomplete"
