"""Frames and whole bodies agree, whatever the chunking; errors and running timings in streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import (
    DragomanError,
    EngineFailure,
    Forbidden,
    ModelNotFound,
    NotSupported,
    Overloaded,
    PayloadTooLarge,
    Unavailable,
    UnsupportedField,
)
from dragoman.core.events import Event, Failed, Finished, Logprobs, PartDelta, PartEnd, PartStart, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.model import ModelCard
from dragoman.core.usage import Timings, Usage
from dragoman.dialects.base import ReplyContext, WireRequest
from dragoman.dialects.llamacpp.endpoints import DIALECT
from dragoman.dialects.llamacpp.read import read_completion
from dragoman.dialects.llamacpp.write import CompletionWriter
from tests.support.event_fold import fold_events

CONTEXT = ReplyContext(
    card=ModelCard(id="m", path="m.gguf", format="gguf", engine="fake", context_length=64), created=1, request_id="r"
)
FINISHES = (
    Finish(FinishReason.EOS),
    Finish(FinishReason.STOP, "stop"),
    Finish(FinishReason.LENGTH),
    Finish(FinishReason.CONTEXT),
)


def writer_of(**fields: Any) -> CompletionWriter:
    body = json.dumps({"prompt": "x", **fields}).encode()
    writer = read_completion(WireRequest(method="POST", path="/completion", body=body)).writer(CONTEXT)
    assert isinstance(writer, CompletionWriter)
    return writer


def objects(writer: CompletionWriter, events: list[Event]) -> list[dict[str, Any]]:
    frames = [frame for event in events for frame in writer.frames(event)] + writer.end()
    return [json.loads(frame.data) for frame in frames]


@st.composite
def answers(draw: st.DrawFn, choice: int = 0, logprobs: bool = False) -> list[Event]:
    """One choice in any chunking: deltas with several tokens, with none, and with no text."""
    deltas = draw(
        st.lists(st.tuples(st.text(max_size=6), st.lists(st.integers(0, 99), max_size=3).map(tuple)), max_size=12)
    )
    events: list[Event] = [Started(choice, 5, 2, "prompt"), PartStart(choice, 0, "text")]
    for text, tokens in deltas:
        events.append(PartDelta(choice, 0, text, tokens))
        if logprobs and tokens:
            raw = text.encode()
            events.append(Logprobs(choice, tuple(LogprobEntry(token, text, raw, text, -0.5) for token in tokens)))
    events.append(PartEnd(choice, 0))
    if draw(st.booleans()):
        events.append(PartDelta(choice, -1, "", (2,)))
    sampled = sum(len(event.tokens) for event in events if isinstance(event, PartDelta))
    finish = draw(st.sampled_from(FINISHES))
    return [*events, Finished(choice, finish, Usage(5, sampled, 2), Timings(3.5, 7.25), slot=1)]


FIELDS = st.fixed_dictionaries(
    {
        "stop": st.sampled_from([[], ["stop"]]),
        "timings_per_token": st.booleans(),
        "return_tokens": st.booleans(),
    }
)


@given(answers(), FIELDS, st.booleans())
def test_stream_folds_to_the_whole(events: list[Event], fields: dict[str, Any], wants_logprobs: bool) -> None:
    if wants_logprobs:
        fields = {**fields, "n_probs": 1}
    shown = objects(writer_of(stream=True, **fields), events)
    partial, final = shown[:-1], shown[-1]
    whole = json.loads(writer_of(stream=True, **fields).whole(fold_events(events)))
    assert "".join(frame["content"] for frame in partial) == whole["content"]
    assert list(final) == list(whole)
    assert {**final, "content": whole["content"], "tokens": whole["tokens"]} == whole
    counts = [frame["tokens_predicted"] for frame in partial]
    assert counts == sorted(counts)
    assert not counts or counts[-1] == whole["tokens_predicted"]
    assert all(frame["stop"] is False and len(frame["tokens"]) <= 1 for frame in partial)


@given(answers(logprobs=True))
def test_streamed_probabilities_are_those_of_the_whole(events: list[Event]) -> None:
    shown = objects(writer_of(stream=True, n_probs=1), events)
    streamed = [entry for frame in shown[:-1] for entry in frame.get("completion_probabilities", ())]
    whole = json.loads(writer_of(n_probs=1).whole(fold_events(events)))
    assert streamed == whole.get("completion_probabilities", [])


@given(answers(0), answers(1), st.randoms(use_true_random=False))
def test_several_prompts_interleave_and_order_by_index(first: list[Event], second: list[Event], random: Any) -> None:
    queues = [list(first), list(second)]
    merged: list[Event] = []
    while any(queues):
        merged.append(random.choice([queue for queue in queues if queue]).pop(0))
    shown = objects(writer_of(prompt=["a", "b"], stream=True), merged)
    whole = json.loads(writer_of(prompt=["a", "b"]).whole(fold_events(merged)))
    assert [body["index"] for body in whole] == [0, 1]
    for index, body in enumerate(whole):
        mine = [frame for frame in shown if frame["index"] == index]
        assert "".join(frame["content"] for frame in mine) == body["content"]
        assert mine[-1]["stop"] is True


def test_tokens_inside_a_character_show_the_last_id() -> None:
    events: list[Event] = [Started(0, 1), PartDelta(0, 0, "😀", (10, 11, 12))]
    assert objects(writer_of(stream=True), events)[0]["tokens"] == [12]


def test_truncation_is_told_by_the_window() -> None:
    def final(reason: FinishReason, sampled: int, **fields: Any) -> dict[str, Any]:
        events: list[Event] = [Started(0, 60), Finished(0, Finish(reason), Usage(60, sampled))]
        return objects(writer_of(stream=True, **fields), events)[-1]

    assert final(FinishReason.CONTEXT, 4)["truncated"] is True
    assert final(FinishReason.LENGTH, 4, n_predict=50)["truncated"] is True
    assert final(FinishReason.LENGTH, 4, n_predict=4)["truncated"] is False
    assert final(FinishReason.LENGTH, 3)["truncated"] is False


def test_running_timings_come_from_the_clock() -> None:
    seconds = iter([10.0, 10.5, 10.75])
    call = read_completion(
        WireRequest(method="POST", path="/", body=b'{"prompt":"x","stream":true,"timings_per_token":true}')
    )
    options = call.writer.args[0]  # type: ignore[attr-defined]
    writer = CompletionWriter(options, CONTEXT, clock=lambda: next(seconds))
    events: list[Event] = [Started(0, 5, 1), PartDelta(0, 0, "a", (1,)), PartDelta(0, 0, "b", (2,))]
    first, second = objects(writer, events)
    assert first["timings"]["prompt_ms"] == 500.0
    assert (first["timings"]["prompt_n"], first["timings"]["cache_n"]) == (4, 1)
    assert (second["timings"]["predicted_n"], second["timings"]["predicted_ms"]) == (2, 250.0)
    assert list(second)[-1] == "timings"


def test_failure_ends_the_stream_with_the_envelope() -> None:
    writer = writer_of(stream=True, n_probs=1)
    events: list[Event] = [Started(0, 5), PartDelta(0, 0, "a", (1,)), Failed(0, EngineFailure("The engine died."))]
    shown = objects(writer, events)
    assert shown[0]["content"] == "a"
    assert shown[1] == {"error": {"code": 500, "message": "The engine died.", "type": "server_error"}}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (UnsupportedField("no", field="x"), 400, "invalid_request_error"),
        (Forbidden("no"), 403, "permission_error"),
        (ModelNotFound("a", "b"), 404, "not_found_error"),
        (PayloadTooLarge("no"), 413, "invalid_request_error"),
        (Overloaded("no", retry_after=1), 429, "unavailable_error"),
        (EngineFailure("no"), 500, "server_error"),
        (NotSupported("no"), 501, "not_supported_error"),
        (Unavailable("The server is shutting down."), 503, "unavailable_error"),
        (DragomanError("no"), 500, "server_error"),
    ],
)
def test_error_kinds(error: DragomanError, status: int, kind: str) -> None:
    reply = DIALECT.error(error, "r")
    body = json.loads(reply.body)["error"]
    assert (reply.status, body["code"], body["type"], body["message"]) == (status, status, kind, error.sentence)
