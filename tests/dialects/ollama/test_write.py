"""Chunks fold to the whole whatever the chunking, and the official SDK reads what is written."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import EngineFailure, ModelNotFound
from dragoman.core.events import Event, Failed, Finished, Logprobs, PartDelta, PartEnd, PartStart, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.inforce import InForce
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.model import ModelCard
from dragoman.core.operations import ModelRequest, ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.core.usage import Timings, Usage
from dragoman.dialects.base import GenerateCall, ReplyContext, SmallCall, StaticCall, WireRequest
from dragoman.dialects.ollama.endpoints import DIALECT
from dragoman.dialects.ollama.models import parameter_size
from dragoman.dialects.ollama.stamp import Stamp
from dragoman.dialects.ollama.write import CHAT, GENERATE, AnswerWriter, ReplyOptions, Shape
from tests.support.event_fold import fold_events

CARD = ModelCard(
    id="tiny",
    aliases=("little:1b", "org/other"),
    path="tiny.gguf",
    format="gguf",
    engine="fake",
    architecture="llama",
    quantization="Q4_1",
    parameters=134515008,
    size_bytes=98765432,
    vocab_size=49152,
    digest="sha256:" + "ab" * 32,
    created=1764406339,
    context_length=2048,
    trained_context=8192,
    chat_template="{{ messages }}",
    tools=True,
    thinking=True,
    sampling_defaults=SamplingSpec(temperature=0.6, repetition_penalty=1.1),
    metadata={"general.file_type": 3},
)
CONTEXT = ReplyContext(card=CARD, created=1, request_id="r")
STAMP = "2025-11-29T08:52:19.385406455Z"


def fixed_clock() -> int:
    return 1764406339_385406455


def writer_of(shape: Shape, *, logprobs: bool = False, prompt: tuple[int, ...] | None = None) -> AnswerWriter:
    options = ReplyOptions(model="m", shape=shape, logprobs=logprobs, context=prompt is not None)
    context = msgspec.structs.replace(CONTEXT, in_force=(InForce(prompt=prompt or ()),))
    return AnswerWriter(options, context, clock=fixed_clock)


def chunks(writer: AnswerWriter, events: list[Event]) -> list[dict[str, Any]]:
    frames = [frame for event in events for frame in writer.frames(event)] + writer.end()
    assert all(b"\n" not in frame.data for frame in frames)
    return [json.loads(frame.data) for frame in frames]


CALLS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2).map(json.dumps)


@st.composite
def answers(draw: st.DrawFn, logprobs: bool = False) -> list[Event]:
    """Parts of any kind in any chunking; tool calls carry an object."""
    events: list[Event] = [Started(0, 7, 2, "prompt")]
    for index, kind in enumerate(draw(st.lists(st.sampled_from(["text", "reasoning", "tool_call"]), max_size=5))):
        text = draw(CALLS if kind == "tool_call" else st.text(max_size=12))
        call = {"id": f"call_{index}", "name": "f"} if kind == "tool_call" else {}
        events.append(PartStart(0, index, kind, **call))  # type: ignore[arg-type]
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
            events.append(PartDelta(0, index, text[start:stop], (5,)))
            if logprobs:
                raw = text[start:stop].encode()
                events.append(Logprobs(0, (LogprobEntry(5, text[start:stop], raw, "p", -0.5),)))
        events.append(PartEnd(0, index))
        if draw(st.booleans()):
            events.append(PartDelta(0, -1, "", (6,)))
    reason = draw(st.sampled_from(FinishReason))
    return [*events, Finished(0, Finish(reason), Usage(7, 9, 2), Timings(1.5, 2.25, 0.5))]


def folded(lines: list[dict[str, Any]], logprobs: bool) -> dict[str, Any]:
    """What a client makes of the chunks, in the shape of a whole body."""
    told: dict[str, Any] = {"content": "", "thinking": "", "tool_calls": []}
    entries: list[Any] = []
    for line in lines:
        message = line["message"] if "message" in line else {"content": line["response"], **line}
        told["content"] += message["content"]
        told["thinking"] += message.get("thinking", "")
        told["tool_calls"] += message.get("tool_calls", [])
        entries += line.get("logprobs", [])
    kept = {key: value for key, value in told.items() if value or key == "content"}
    if "response" in lines[-1]:
        kept["response"] = kept.pop("content")
    else:
        kept = {"message": {"role": "assistant", **kept}}
    return {**lines[-1], **kept, **({"logprobs": entries} if logprobs and entries else {})}


@given(
    st.data(),
    st.sampled_from([CHAT, GENERATE]),
    st.booleans(),
    st.none() | st.lists(st.integers(0, 9), max_size=3).map(tuple),
)
def test_chunks_fold_to_the_whole(
    data: st.DataObject, shape: Shape, logprobs: bool, prompt: tuple[int, ...] | None
) -> None:
    events = data.draw(answers(logprobs=logprobs))
    lines = chunks(writer_of(shape, logprobs=logprobs, prompt=prompt), events)
    whole = json.loads(writer_of(shape, logprobs=logprobs, prompt=prompt).whole(fold_events(events)))
    sampled = [token for event in events if isinstance(event, PartDelta) for token in event.tokens]
    assert whole.get("context") == (None if prompt is None else [*prompt, *sampled])
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert folded(lines, logprobs) == whole
    assert whole["created_at"] == STAMP


def test_text_is_sent_at_once_and_calls_when_complete() -> None:
    events: list[Event] = [
        Started(0, 7),
        PartStart(0, 0, "reasoning"),
        PartDelta(0, 0, "hm", (1,)),
        PartEnd(0, 0),
        PartStart(0, 1, "text"),
        PartDelta(0, 1, "Hé\n", (2,)),
        PartEnd(0, 1),
        PartStart(0, 2, "tool_call", "c1", "f"),
        PartDelta(0, 2, '{"a"', (3,)),
        PartDelta(0, 2, ":1}", (4,)),
        PartEnd(0, 2),
        Finished(0, Finish(FinishReason.TOOL_CALLS), Usage(7, 4), Timings(2.0, 3.0, 1.0)),
    ]
    base = {"model": "m", "created_at": STAMP}
    lines = chunks(writer_of(CHAT), events)
    call = {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "Hé\n"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    assert lines[:3] == [{**base, "message": message, "done": False} for message in messages]
    assert lines[3] == {
        **base,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 6_000_000,
        "load_duration": 0,
        "prompt_eval_count": 7,
        "prompt_eval_duration": 2_000_000,
        "eval_count": 4,
        "eval_duration": 3_000_000,
    }
    assert len(lines) == 4


@pytest.mark.parametrize(("text", "arguments"), [("", {}), ("{}", {}), ('{"n": 1}', {"n": 1})])
def test_arguments_are_an_object(text: str, arguments: Any) -> None:
    events: list[Event] = [PartStart(0, 0, "tool_call", "c", "f"), PartDelta(0, 0, text), PartEnd(0, 0)]
    line = chunks(writer_of(CHAT), events)[0]
    assert line["message"]["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize("text", ["[1]", "3", "{bad", '{"n": '])
def test_what_is_no_object_is_told_as_text(text: str) -> None:
    events: list[Event] = [PartStart(0, 0, "tool_call", "c", "f"), PartDelta(0, 0, text), PartEnd(0, 0)]
    line = chunks(writer_of(CHAT), events)[0]
    assert line["message"] == {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (FinishReason.EOS, "stop"),
        (FinishReason.STOP, "stop"),
        (FinishReason.TOOL_CALLS, "stop"),
        (FinishReason.NONE, "stop"),
        (FinishReason.LENGTH, "length"),
        (FinishReason.CONTEXT, "length"),
    ],
)
def test_done_reasons(reason: FinishReason, word: str) -> None:
    lines = chunks(writer_of(GENERATE), [Finished(0, Finish(reason), Usage())])
    assert lines[0]["done_reason"] == word


def test_a_failure_is_an_error_line() -> None:
    events: list[Event] = [PartStart(0, 0, "text"), PartDelta(0, 0, "a"), Failed(0, EngineFailure("It broke."))]
    assert chunks(writer_of(CHAT, logprobs=True), events)[-1] == {"error": "It broke."}


def test_stamps_count_up() -> None:
    times = iter([1764406339_000000001, 1764406339_999999999, 1764406340_000000000])
    stamp = Stamp(lambda: next(times))
    assert [stamp.now() for _ in range(3)] == [
        b"2025-11-29T08:52:19.000000001Z",
        b"2025-11-29T08:52:19.999999999Z",
        b"2025-11-29T08:52:20.000000000Z",
    ]


def test_parameter_sizes() -> None:
    sizes = [parameter_size(count) for count in (0, 500, 134515008, 999_990_000, 1_240_000_000, 8_030_261_248)]
    assert sizes == ["", "500", "134.52M", "999.99M", "1.2B", "8.0B"]


# The official SDK against the dialect itself: its own request bodies in, its own types out.


ANSWER: list[Event] = [
    Started(0, 7),
    PartStart(0, 0, "reasoning"),
    PartDelta(0, 0, "hm", (1,)),
    PartEnd(0, 0),
    PartStart(0, 1, "text"),
    PartDelta(0, 1, "Hel", (2,)),
    Logprobs(0, (LogprobEntry(2, "Hel", b"Hel", "Hel", -0.25, (LogprobEntry(2, "Hel", b"Hel", "Hel", -0.25),)),)),
    PartDelta(0, 1, "lo", (3,)),
    PartEnd(0, 1),
    PartStart(0, 2, "tool_call", "c1", "f"),
    PartDelta(0, 2, '{"city":"Paris"}', (4,)),
    PartEnd(0, 2),
    Finished(0, Finish(FinishReason.TOOL_CALLS), Usage(7, 4), Timings(2.0, 3.0, 1.0)),
]


def serve(events: list[Event]) -> Callable[[httpx.Request], httpx.Response]:
    """An HTTP transport that answers from the dialect's own tables."""

    def handle(request: httpx.Request) -> httpx.Response:
        row = next(row for row in DIALECT.endpoints if (row.method, row.path) == (request.method, request.url.path))
        call = row.read(WireRequest(method=request.method, path=request.url.path, body=request.content))
        if isinstance(call, StaticCall):
            return httpx.Response(200, content=call.body)
        if isinstance(call, SmallCall):
            if isinstance(call.request, ModelRequest):
                if call.request.name != "tiny":
                    reply = DIALECT.error(ModelNotFound(call.request.name or "", "tiny"), "r")
                    return httpx.Response(reply.status, content=reply.body)
                return httpx.Response(200, content=call.write(ModelState(CARD)))
            return httpx.Response(200, content=call.write((ModelState(CARD),)))
        assert isinstance(call, GenerateCall)
        writer = call.writer(CONTEXT)
        if not call.stream:
            return httpx.Response(200, content=writer.whole(fold_events(events)))
        frames = [frame for event in events for frame in writer.frames(event)] + writer.end()
        return httpx.Response(200, content=b"".join(frame.data + b"\n" for frame in frames))

    return handle


def client(events: list[Event] = ANSWER) -> ollama.Client:
    return ollama.Client(host="http://test", transport=httpx.MockTransport(serve(events)))


def f(city: str) -> str:
    """Weather of a city.

    Args:
      city: its name
    """
    return city


def test_sdk_chat_whole() -> None:
    answer = client().chat(
        "tiny:latest",
        [ollama.Message(role="user", content="hi")],
        tools=[f],
        think=True,
        logprobs=True,
        top_logprobs=1,
        options=ollama.Options(temperature=0, num_ctx=512),
        keep_alive="5m",
    )
    assert (answer.model, answer.done, answer.done_reason) == ("tiny:latest", True, "stop")
    assert (answer.message.role, answer.message.content, answer.message.thinking) == ("assistant", "Hello", "hm")
    assert answer.message.tool_calls is not None
    assert answer.message.tool_calls[0].function.name == "f"
    assert answer.message.tool_calls[0].function.arguments == {"city": "Paris"}
    assert (answer.prompt_eval_count, answer.eval_count, answer.total_duration) == (7, 4, 6_000_000)
    assert answer.logprobs is not None
    assert answer.logprobs[0].top_logprobs is not None


def test_sdk_chat_stream() -> None:
    parts = list(client().chat("tiny", [{"role": "user", "content": "hi"}], stream=True))
    assert "".join(part.message.content or "" for part in parts) == "Hello"
    assert [bool(part.message.tool_calls) for part in parts] == [False, False, False, True, False]
    assert parts[-1].done is True
    assert parts[-1].created_at is not None


@pytest.mark.parametrize("stream", [True, False])
def test_sdk_generate(stream: bool) -> None:
    answer = client().generate("tiny", "hi", stream=stream)
    parts = list(answer) if stream else [answer]  # type: ignore[arg-type]
    assert "".join(part.response or "" for part in parts) == "Hello"
    assert "".join(part.thinking or "" for part in parts) == "hm"
    assert parts[-1].done_reason == "stop"


def test_sdk_sees_the_catalog() -> None:
    listed = client().list().models
    assert [model.model for model in listed] == ["tiny:latest", "little:1b", "org/other:latest"]
    assert listed[0].size == 98765432
    assert listed[0].digest == "ab" * 32
    assert listed[0].modified_at is not None
    assert listed[0].modified_at.year == 2025
    assert listed[0].details is not None
    assert (listed[0].details.format, listed[0].details.parameter_size) == ("gguf", "134.52M")
    running = client().ps().models[0]
    assert (running.name, running.context_length) == ("tiny:latest", 2048)
    assert running.expires_at is not None
    shown = client().show("tiny")
    assert shown.capabilities == ["completion", "tools", "thinking"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.modelinfo["llama.context_length"] == 8192
    assert shown.parameters is not None
    assert [line.split() for line in shown.parameters.splitlines()] == [
        ["num_ctx", "2048"],
        ["temperature", "0.6"],
        ["repeat_penalty", "1.1"],
    ]


def test_sdk_errors() -> None:
    with pytest.raises(ollama.ResponseError) as raised:
        client().show("nope")
    assert (raised.value.status_code, raised.value.error) == (404, "model 'nope' not found")
    broken: list[Event] = [Started(0, 1), PartStart(0, 0, "text"), Failed(0, EngineFailure("It broke."))]
    with pytest.raises(ollama.ResponseError, match=r"It broke\."):
        list(client(broken).chat("tiny", [{"role": "user", "content": "hi"}], stream=True))


def test_version_is_new_enough_for_clients_that_compare() -> None:
    call = next(row for row in DIALECT.endpoints if row.path == "/api/version").read(
        WireRequest(method="GET", path="/api/version")
    )
    assert isinstance(call, StaticCall)
    version = tuple(int(piece) for piece in json.loads(call.body)["version"].split("."))
    assert version >= (0, 13, 4)
