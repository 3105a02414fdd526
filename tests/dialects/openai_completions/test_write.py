"""Completions chunks and the text_completion object, judged by the official SDK's types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import Overloaded
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartStart,
    PromptLogprobs,
    PromptProgress,
    Started,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.usage import Usage
from dragoman.dialects.openai_completions.logprobs import LogprobLog
from dragoman.dialects.openai_completions.write import CompletionReply, CompletionWriter
from dragoman.output.assemble import assemble
from tests.dialects.answers import CONTEXT, Script, entry, scripts, written


def chunks(script: Script, reply: CompletionReply) -> list[dict[str, Any]]:
    frames = written(CompletionWriter(CONTEXT, reply), script)
    assert frames[-1] == ("", b"[DONE]")
    return [json.loads(data) for _, data in frames[:-1]]


def folded(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The chunks added up the way clients of this wire do it (the SDK has no accumulator for it)."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in found:
        Completion.model_construct(**chunk)
        for choice in chunk["choices"]:
            known = choices.setdefault(choice["index"], {"index": choice["index"], "text": "", "logprobs": None})
            known["text"] += choice["text"]
            known["finish_reason"] = choice["finish_reason"]
            if choice["logprobs"]:
                known["logprobs"] = joined(known["logprobs"], choice["logprobs"])
    last = found[-1]
    keys = ("id", "object", "created", "model", "system_fingerprint")
    return {key: last[key] for key in keys} | {"choices": [choices[i] for i in sorted(choices)], "usage": last["usage"]}


def joined(known: dict[str, Any] | None, more: dict[str, Any]) -> dict[str, Any]:
    if known is None:
        return more
    return {key: None if value is None else value + more[key] for key, value in known.items()}


def whole(script: Script, reply: CompletionReply) -> dict[str, Any]:
    body = CompletionWriter(CONTEXT, reply).whole(script.answer)
    Completion.model_validate_json(body, strict=True)
    return json.loads(body)


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    n=st.integers(1, 2),
    prompts=st.integers(1, 2),
    echo=st.booleans(),
    rivals=st.none() | st.integers(0, 2),
)
def test_folded_stream_equals_whole(data: st.DataObject, n: int, prompts: int, echo: bool, rivals: int | None) -> None:
    script = data.draw(scripts(n=n * prompts, kinds=("text", "reasoning"), logprobs=rivals is not None))
    texts = tuple(f"prompt {number} " for number in range(prompts)) if echo else ()
    reply = CompletionReply(n=n, prompts=prompts, echo=texts, include_usage=True, logprobs=rivals)
    body = whole(script, reply)
    for choice in body["choices"]:  # a stream has no chunk for an empty block
        if choice["logprobs"] is not None and not choice["logprobs"]["tokens"]:
            choice["logprobs"] = None
    assert folded(chunks(script, reply)) == body


def answered(text: str, reason: FinishReason = FinishReason.EOS, prompt: int = 4) -> Script:
    usage = Usage(prompt, 2, 1)
    events = (
        Started(0, prompt, 1),
        PartStart(0, 0, "text"),
        PartDelta(0, 0, text, (1,)),
        PartEnd(0, 0),
        PartDelta(0, -1, "", (2,)),
        Finished(0, Finish(reason), usage),
    )
    choice = Choice(index=0, parts=(AnswerPart("text", text),), finish=Finish(reason), usage=usage)
    return Script(events, Answer((choice,)))


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (FinishReason.EOS, "stop"),
        (FinishReason.STOP, "stop"),
        (FinishReason.NONE, "stop"),
        (FinishReason.LENGTH, "length"),
        (FinishReason.CONTEXT, "length"),
    ],
)
def test_finish_reasons(reason: FinishReason, word: str) -> None:
    assert whole(answered("x", reason), CompletionReply())["choices"][0]["finish_reason"] == word
    assert chunks(answered("x", reason), CompletionReply())[-1]["choices"][0]["finish_reason"] == word


def test_case_20_usage_only_when_asked_for() -> None:
    assert all("usage" not in chunk for chunk in chunks(answered("x"), CompletionReply()))
    *earlier, last = chunks(answered("x"), CompletionReply(include_usage=True))
    assert all(chunk["usage"] is None for chunk in earlier)
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 6)
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}


def test_running_usage() -> None:
    found = chunks(answered("x"), CompletionReply(running_usage=True))
    assert [chunk["usage"]["completion_tokens"] for chunk in found] == [1, 2]


def test_every_prompt_counts_once() -> None:
    finish = Finish(FinishReason.EOS)
    choices = tuple(Choice(index=i, parts=(), finish=finish, usage=Usage(10 + i // 2, 1)) for i in range(4))
    usage = json.loads(CompletionWriter(CONTEXT, CompletionReply(n=2, prompts=2)).whole(Answer(choices)))["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (21, 4)


def test_echo_comes_first() -> None:
    reply = CompletionReply(echo=("Once ",))
    assert whole(answered("upon"), reply)["choices"][0]["text"] == "Once upon"
    assert [chunk["choices"][0]["text"] for chunk in chunks(answered("upon"), reply)] == ["Once ", "upon", ""]


def test_error_in_the_stream_is_one_envelope() -> None:
    [frame] = CompletionWriter(CONTEXT, CompletionReply(echo=("x",))).frames(Failed(0, Overloaded("Busy.")))
    assert json.loads(frame.data)["error"]["type"] == "rate_limit_error"


def test_progress_rides_on_an_empty_chunk() -> None:
    [frame] = CompletionWriter(CONTEXT, CompletionReply()).frames(PromptProgress(0, 40, 8, 24, 277.6))
    chunk = json.loads(frame.data)
    assert chunk["prompt_progress"] == {"total": 40, "cache": 8, "processed": 24, "time_ms": 278}
    assert chunk["choices"][0]["text"] == ""


def test_case_40_offsets_count_characters() -> None:
    pieces = [b"a", b"\xe2\x80", b"\x9c", "é".encode(), b"!", b""]
    log = LogprobLog(1, offset=3)
    block = log.block([entry(raw, -0.5, (entry(raw, -0.5), entry(b"z", -1.0, token=9))) for raw in pieces])
    assert block.text_offset == [3, 4, 4, 5, 6, 7]
    assert block.tokens == ["a", "bytes:\\xe2\\x80", "bytes:\\x9c", "é", "!", "<7>"]
    assert block.token_logprobs == [-0.5] * 6
    assert block.top_logprobs is not None
    assert block.top_logprobs[0] == {"a": -0.5, "z": -1.0}


def test_chosen_token_outside_the_rivals_is_added() -> None:
    [rivals] = LogprobLog(1).block([entry(b"a", -5.0, (entry(b"z", -1.0, token=9),))]).top_logprobs or []
    assert list(rivals.items()) == [("z", -1.0), ("a", -5.0)]


def test_no_rivals_asked_for() -> None:
    assert LogprobLog(0).block([entry(b"a")]).top_logprobs is None


def test_offsets_go_on_across_chunks() -> None:
    writer = CompletionWriter(CONTEXT, CompletionReply(logprobs=0, echo=("ab",)))
    events = [
        Started(0, 1),
        PromptLogprobs(0, (entry(b"b"),), entry(b"a")),
        PartStart(0, 0, "text"),
        PartDelta(0, 0, "x", (1,)),
        Logprobs(0, (entry(b"x"),)),
        PartDelta(0, 0, "yz", (1,)),
        Logprobs(0, (entry(b"yz"),)),
    ]
    found = [json.loads(frame.data)["choices"][0] for event in events for frame in writer.frames(event)]
    assert [(one["text"], one["logprobs"] and one["logprobs"]["text_offset"]) for one in found] == [
        ("ab", None),
        ("", [0, 1]),
        ("x", [2]),
        ("yz", [3]),
    ]


def test_an_echoed_prompt_has_its_own_figures() -> None:
    """As OpenAI wrote them: null for the first token, which nothing predicts."""
    events: list[Event] = [
        Started(0, 2, 0, "ab"),
        PromptLogprobs(0, (entry(b"b", -0.5, (entry(b"c", -2.0),)),), entry(b"a")),
        PartStart(0, 0, "text"),
        PartDelta(0, 0, "x", (1,)),
        Logprobs(0, (entry(b"x", -0.25),)),
        PartEnd(0, 0),
        Finished(0, Finish(FinishReason.LENGTH), Usage(2, 1)),
    ]
    reply = CompletionReply(logprobs=1, echo=(None,))
    choice = json.loads(CompletionWriter(CONTEXT, reply).whole(assemble(events)))["choices"][0]
    assert choice["text"] == "abx"
    assert choice["logprobs"] == {
        "tokens": ["a", "b", "x"],
        "token_logprobs": [None, -0.5, -0.25],
        "top_logprobs": [None, {"b": -0.5, "c": -2.0}, {"x": -0.25}],
        "text_offset": [0, 1, 2],
    }
    writer = CompletionWriter(CONTEXT, reply)
    found = folded([json.loads(frame.data) | {"usage": None} for event in events for frame in writer.frames(event)])
    assert found["choices"][0]["logprobs"] == choice["logprobs"]
