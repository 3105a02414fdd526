"""Readers, writers and errors against recorded exchanges, without an engine: the events are those the recording
implies."""

import json
import math
from typing import Any

import pytest

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    DragomanError,
    MethodNotAllowed,
    NotFound,
    TokenOutOfRange,
    Unavailable,
)
from dragoman.core.events import (
    Event,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartStart,
    PromptProgress,
    Started,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.model import ModelCard
from dragoman.core.operations import Detokenized, Health, ModelState, Rendered, Tokenized
from dragoman.core.request import RawInput
from dragoman.core.usage import Timings, Usage
from dragoman.dialects.base import Call, GenerateCall, ReplyContext, SmallCall, StaticCall, WireRequest
from dragoman.dialects.llamacpp.endpoints import DIALECT
from tests.support.golden import Exchange, differences, load, names

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
CARD = ModelCard(
    id=MODEL,
    path=MODEL,
    format="gguf",
    engine="llamacpp",
    engine_build="b0-unknown",
    quantization="Q4_1",
    context_length=2048,
    chat_template=load("props_get").answer["chat_template"],
    template_caps=frozenset({"string_content", "system_role"}),
    bos_token="<|im_start|>",
    eos_token="<|im_end|>",
)
CONTEXT = ReplyContext(card=CARD, created=1, request_id="r")
STOP_REASONS = {
    "eos": FinishReason.EOS,
    "word": FinishReason.STOP,
    "limit": FinishReason.LENGTH,
    "none": FinishReason.NONE,
}

BY_THE_SERVICE: dict[str, DragomanError] = {
    "auth_props_401": AuthenticationFailed("wrong key"),
    "auth_wrong_401": AuthenticationFailed("wrong key"),
    "context_overflow_error": ContextLengthExceeded(2048, 2048),
    "stream_error_before_first_frame": ContextLengthExceeded(3000, 2048),
    "detokenize_out_of_range": TokenOutOfRange(999999999, 49152, field="tokens"),
    "health_loading_503": Unavailable("The model is loading.", retry_after=2),
    "health_loading_503_completion": Unavailable("loading", retry_after=2),
    "method_not_matched": MethodNotAllowed("no", allowed=("POST",)),
    "not_found": NotFound("no such route"),
    "prompt_invalid_token_ids": TokenOutOfRange(999999999, 49152, field="prompt"),
}

ERRORS = [name for name in names() if load(name).status != 200]
COMPLETIONS = [name for name in names() if load(name).status == 200 and load(name).path.startswith("/completion")]
STREAMS = [name for name in COMPLETIONS if load(name).frames is not None]
WHOLES = [name for name in COMPLETIONS if load(name).frames is None]


def read(exchange: Exchange) -> Call:
    row = next(row for row in DIALECT.endpoints if (row.method, row.path) == (exchange.method, exchange.path))
    return row.read(WireRequest(method=exchange.method, path=exchange.path, body=exchange.body or b""))


def read_generation(name: str) -> GenerateCall:
    call = read(load(name))
    assert isinstance(call, GenerateCall)
    return call


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_the_recorded_one(name: str) -> None:
    exchange = load(name)
    error = BY_THE_SERVICE.get(name)
    if error is None:
        with pytest.raises(DragomanError) as raised:
            read(exchange)
        error = raised.value
    reply = DIALECT.error(error, "r")
    assert reply.status == exchange.status
    assert json.dumps(json.loads(reply.body)) == json.dumps(exchange.answer)


def final_choice(body: dict[str, Any], n_probs: int) -> Choice:
    tokens = body["tokens"] or [0] * body["tokens_predicted"]
    entries = tuple(entry(item) for item in body.get("completion_probabilities", ()))
    assert bool(entries) == (n_probs > 0)
    return Choice(
        index=body["index"],
        parts=(AnswerPart("text", body["content"]),),
        finish=Finish(STOP_REASONS[body["stop_type"]], body["stopping_word"] or None),
        usage=usage_of(body),
        tokens=tuple(tokens),
        logprobs=entries,
        timings=Timings(body["timings"]["prompt_ms"], body["timings"]["predicted_ms"]),
        slot=body["id_slot"],
        prompt_text=body["prompt"],
    )


def usage_of(body: dict[str, Any]) -> Usage:
    return Usage(body["tokens_evaluated"], body["tokens_predicted"], body["timings"]["cache_n"])


def entry(item: dict[str, Any]) -> LogprobEntry:
    raw = bytes(item["bytes"])
    top = tuple(entry(rival) for rival in item.get("top_logprobs") or item.get("top_probs", ()))
    logprob = item["logprob"] if "logprob" in item else math.log(item["prob"])
    return LogprobEntry(item["id"], raw.decode("utf-8", "replace"), raw, "", logprob, top)


def whole_names() -> list[str]:
    return [name for name in WHOLES if b"response_fields" not in (load(name).body or b"")]


@pytest.mark.parametrize("name", whole_names())
def test_whole(name: str) -> None:
    exchange = load(name)
    call = read_generation(name)
    assert not call.stream
    bodies = exchange.answer if isinstance(exchange.answer, list) else [exchange.answer]
    n_probs = call.requests[0].logprobs or 0
    answer = Answer(tuple(final_choice(body, n_probs) for body in bodies))
    written = json.loads(call.writer(CONTEXT).whole(answer))
    # Nothing is masked but what the recording's own history shaped.
    assert json.dumps(written) == json.dumps(exchange.answer)


def test_projection_of_the_final_object() -> None:
    base = load("completion_limit").answer
    for name in ("response_fields_basic", "response_fields_stream", "context_fill_truncated"):
        exchange = load(name)
        call = read_generation(name)
        expected = exchange.answer if exchange.frames is None else exchange.frames[-1]
        counts = {
            key: expected[key]
            for key in ("content", "tokens_predicted", "tokens_evaluated", "stop_type")
            if key in expected
        }
        body = {**base, "tokens_predicted": 2, "content": " Paris.", **counts}
        written = json.loads(call.writer(CONTEXT).whole(Answer((final_choice(body, 0),))))
        assert json.dumps(written) == json.dumps(expected), name


def implied_events(frames: list[dict[str, Any]]) -> list[Event]:
    """The canonical events behind recorded frames: one delta per partial frame, entries directly after it."""
    events: list[Event] = []
    finals = {frame["index"]: frame for frame in frames if frame["stop"]}
    seen: dict[int, int] = {}
    for frame in frames:
        index = frame["index"]
        if index not in seen:
            seen[index] = 0
            final = finals[index]
            cached = final["timings"]["cache_n"]
            events += [
                Started(index, final["tokens_evaluated"], cached, final["prompt"]),
                PartStart(index, 0, "text"),
            ]
        if frame["stop"]:
            finish = Finish(STOP_REASONS[frame["stop_type"]], frame["stopping_word"] or None)
            times = Timings(frame["timings"]["prompt_ms"], frame["timings"]["predicted_ms"])
            events += [PartEnd(index, 0), Finished(index, finish, usage_of(frame), times, frame["id_slot"])]
        elif "prompt_progress" in frame:
            told = frame["prompt_progress"]
            events.append(PromptProgress(index, told["total"], told["cache"], told["processed"], told["time_ms"] + 0.4))
        else:
            # Tokens inside a character arrive with the token that completes it; only that one's id is recorded.
            sampled = frame["tokens_predicted"] - seen[index]
            seen[index] = frame["tokens_predicted"]
            events.append(PartDelta(index, 0, frame["content"], (*[7] * (sampled - 1), *frame["tokens"])))
            entries = tuple(entry(item) for item in frame.get("completion_probabilities", ()))
            if entries:
                events.append(Logprobs(index, entries))
    return events


UNFIT_STREAMS = {
    "response_fields_stream": "its final frame is a projection, tested above",
    "stream_word_multitoken": "its held-back entries have no text",
}


@pytest.mark.parametrize("name", [name for name in STREAMS if name not in UNFIT_STREAMS])
def test_stream_frames_are_the_recorded_ones(name: str) -> None:
    exchange = load(name)
    call = read_generation(name)
    assert call.stream
    frames = exchange.frames or []
    writer = call.writer(CONTEXT)
    written = [frame for event in implied_events(frames) for frame in writer.frames(event)] + writer.end()
    assert all(frame.event == "" for frame in written)
    shown = [json.loads(frame.data) for frame in written]
    if name == "prompt_empty_string_stream":
        # The recorded slot still held six tokens of the request before.
        assert shown[-1]["tokens_cached"] == 0
        shown[-1]["tokens_cached"] = 6
    assert differences(frames, shown) == []
    assert call.requests[0].progress == any("prompt_progress" in frame for frame in frames)


def written_small(name: str, result: object) -> Any:
    call = read(load(name))
    if isinstance(call, StaticCall):
        assert call.content_type == DIALECT.content_type
        return json.loads(call.body)
    assert isinstance(call, SmallCall)
    return json.loads(call.write(result))


@pytest.mark.parametrize(
    "name", [name for name in names() if name.startswith(("tokenize", "detokenize")) and load(name).status == 200]
)
def test_token_utilities(name: str) -> None:
    expected = load(name).answer
    if "content" in expected:
        result: object = Detokenized(expected["content"])
    else:
        items = expected["tokens"]
        ids = tuple(item["id"] if isinstance(item, dict) else item for item in items)
        pieces = [item["piece"] if isinstance(item, dict) else "" for item in items]
        result = Tokenized(ids, tuple(p.encode() if isinstance(p, str) else bytes(p) for p in pieces))
    assert json.dumps(written_small(name, result)) == json.dumps(expected)


def test_tokenize_reads_mixed_content() -> None:
    call = read(load("tokenize_mixed"))
    assert isinstance(call, SmallCall)
    assert call.request.input == RawInput(("Hello", (1,), " world"), add_special=False, parse_special=True)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["apply_template_basic", "apply_template_no_gen_prompt", "apply_template_prefill"])
def test_apply_template(name: str) -> None:
    expected = load(name).answer
    assert written_small(name, Rendered(expected["prompt"])) == expected


def test_health_and_props() -> None:
    for name in ("health_ok", "v1_health_ok"):
        assert written_small(name, Health("ok")) == load(name).answer
    shown = written_small("props_get", ModelState(CARD))
    expected = load("props_get").answer
    assert differences(expected, shown) == []
    assert shown["media_marker"] == expected["media_marker"]
