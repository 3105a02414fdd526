"""The official SDK clients over a transport that answers with what the writers wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import (
    AuthenticationFailed,
    DragomanError,
    EngineFailure,
    InvalidField,
    ModelNotFound,
    Overloaded,
)
from dragoman.core.events import Event, Failed, Finished, PartDelta, PartEnd, PartStart, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.model import ModelCard
from dragoman.core.operations import Counted, ModelState
from dragoman.core.usage import Usage
from dragoman.dialects.anthropic.endpoints import DIALECT as ANTHROPIC
from dragoman.dialects.base import Dialect, Frame, GenerateCall, SmallCall, WireRequest
from dragoman.dialects.openai_chat.endpoints import DIALECT as CHAT
from dragoman.dialects.openai_completions.endpoints import DIALECT as COMPLETIONS
from dragoman.dialects.openai_models.endpoints import DIALECT as MODELS
from tests.dialects.answers import CONTEXT

TOOL = {"type": "object", "properties": {"place": {"type": "string"}}}
PARTS = (
    AnswerPart("reasoning", "Where is it?"),
    AnswerPart("text", "Looking."),
    AnswerPart("tool_call", '{"place": "Oslo"}', "call_1", "look"),
)
FINISH = Finish(FinishReason.TOOL_CALLS)
USAGE = Usage(12, 9, 5, 3)


def events() -> Iterator[Event]:
    yield Started(0, USAGE.prompt_tokens, USAGE.cached_tokens)
    for index, part in enumerate(PARTS):
        yield PartStart(0, index, part.kind, part.id, part.name)
        for character in part.text:
            yield PartDelta(0, index, character, (1,))
        yield PartEnd(0, index)
    yield Finished(0, FINISH, USAGE)


def sse(frames: list[Frame]) -> bytes:
    named = (f"event: {frame.event}\n" if frame.event else "" for frame in frames)
    return b"".join(name.encode() + b"data: " + frame.data + b"\n\n" for name, frame in zip(named, frames, strict=True))


def served(dialect: Dialect, fault: DragomanError | None, *, late: bool) -> Callable[[httpx2.Request], httpx2.Response]:
    """A transport for one dialect. A `fault` is the whole reply, or, when `late`, breaks the stream off."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if fault is not None and not late:
            reply = dialect.error(fault, "req_1")
            return httpx2.Response(reply.status, content=reply.body)
        path = request.url.path
        row = next(row for row in dialect.endpoints if row.path.split("{")[0].rstrip("/") == path.rstrip("/"))
        call = row.read(WireRequest(method=request.method, path=path, body=request.content))
        if isinstance(call, SmallCall):
            result: Any = Counted(12) if "count" in path else (ModelState(CONTEXT.card),)
            return httpx2.Response(200, content=call.write(result))
        assert isinstance(call, GenerateCall)
        writer = call.writer(CONTEXT)
        if not call.stream:
            whole = Answer((Choice(index=0, parts=PARTS, finish=FINISH, usage=USAGE),))
            return httpx2.Response(200, content=writer.whole(whole))
        frames = [frame for event in events() for frame in writer.frames(event)]
        frames = frames[:3] + writer.frames(Failed(0, fault)) if fault is not None else frames + writer.end()
        return httpx2.Response(200, content=sse(frames), headers={"content-type": "text/event-stream"})

    return answer


def openai_client(dialect: Dialect, fault: DragomanError | None = None, *, late: bool = False) -> openai.OpenAI:
    transport = httpx2.MockTransport(served(dialect, fault, late=late))
    return openai.OpenAI(
        base_url="http://x/v1", api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


def anthropic_client(fault: DragomanError | None = None, *, late: bool = False) -> anthropic.Anthropic:
    transport = httpx2.MockTransport(served(ANTHROPIC, fault, late=late))
    return anthropic.Anthropic(
        base_url="http://x", api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


CHAT_ARGS: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": TOOL}}],
}
MESSAGE_ARGS: dict[str, Any] = {
    "model": "m",
    "max_tokens": 2000,
    "messages": [{"role": "user", "content": "hi"}],
    "thinking": {"type": "adaptive"},
    "tools": [{"name": "look", "input_schema": TOOL}],
}


def test_openai_whole_and_streamed_chat_agree() -> None:
    client = openai_client(CHAT)
    whole = client.chat.completions.create(**CHAT_ARGS)
    with client.chat.completions.stream(**CHAT_ARGS, stream_options={"include_usage": True}) as stream:
        folded = stream.get_final_completion()
    for found in (whole, folded):
        [choice] = found.choices
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Looking."
        assert choice.message.to_dict()["reasoning_content"] == "Where is it?"
        assert choice.message.tool_calls
        assert choice.message.tool_calls[0].to_dict()["function"]["arguments"] == '{"place": "Oslo"}'  # type: ignore[index]
        assert found.usage
        assert found.usage.total_tokens == 21


def test_openai_completions() -> None:
    client = openai_client(COMPLETIONS)
    assert client.completions.create(model="m", prompt="x").choices[0].text == "Where is it?Looking."
    chunks = client.completions.create(model="m", prompt="x", stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Where is it?Looking."


def test_anthropic_whole_and_streamed_message_agree() -> None:
    client = anthropic_client()
    whole = client.messages.create(**MESSAGE_ARGS)
    with client.messages.stream(**MESSAGE_ARGS) as stream:
        folded = stream.get_final_message()
    for found in (whole, folded):
        assert [block.type for block in found.content] == ["thinking", "text", "tool_use"]
        assert found.content[2].to_dict()["input"] == {"place": "Oslo"}
        assert found.stop_reason == "tool_use"
        assert (found.usage.input_tokens, found.usage.cache_read_input_tokens) == (7, 5)
        assert found.usage.output_tokens == 9


def test_an_answer_can_be_sent_back() -> None:
    """The assistant turn a client builds from our answer reads as what we wrote."""
    from dragoman.core.messages import ReasoningPart, TextPart, ToolCallPart
    from dragoman.core.request import ChatInput

    turn = {"role": "assistant", "content": anthropic_client().messages.create(**MESSAGE_ARGS).to_dict()["content"]}
    body = json.dumps(MESSAGE_ARGS | {"messages": [*MESSAGE_ARGS["messages"], turn]}).encode()
    call = ANTHROPIC.endpoints[0].read(WireRequest(method="POST", path="/v1/messages", body=body))
    assert isinstance(call, GenerateCall)
    assert isinstance(call.requests[0].input, ChatInput)
    thought, text, used = call.requests[0].input.messages[-1].parts
    assert isinstance(thought, ReasoningPart)
    assert thought.text == "Where is it?"
    assert text == TextPart("Looking.")
    assert used == ToolCallPart("call_1", "look", '{"place":"Oslo"}')


def test_counting_and_listing() -> None:
    args = {key: MESSAGE_ARGS[key] for key in ("model", "messages", "tools")}
    assert anthropic_client().messages.count_tokens(**args).input_tokens == 12
    card: ModelCard = CONTEXT.card
    assert [model.id for model in openai_client(MODELS).models.list()] == [card.id]
    transport = httpx2.MockTransport(served(MODELS, None, late=False))
    client = anthropic.Anthropic(base_url="http://x", api_key="k", http_client=httpx2.Client(transport=transport))
    [info] = client.models.list()
    assert (info.id, info.display_name) == (card.id, card.id)


@pytest.mark.parametrize(
    ("fault", "openai_kind", "anthropic_kind"),
    [
        (InvalidField("No.", field="n"), openai.BadRequestError, anthropic.BadRequestError),
        (AuthenticationFailed("No."), openai.AuthenticationError, anthropic.AuthenticationError),
        (ModelNotFound("a", "b"), openai.NotFoundError, anthropic.NotFoundError),
        (Overloaded("No."), openai.RateLimitError, anthropic.RateLimitError),
        (EngineFailure("No."), openai.InternalServerError, anthropic.InternalServerError),
    ],
)
def test_errors_become_typed_exceptions(
    fault: DragomanError, openai_kind: type[openai.APIStatusError], anthropic_kind: type[anthropic.APIStatusError]
) -> None:
    with pytest.raises(openai_kind) as caught:
        openai_client(CHAT, fault).chat.completions.create(**CHAT_ARGS)
    assert (caught.value.code, caught.value.param) == (fault.code, fault.field)
    with pytest.raises(anthropic_kind):
        anthropic_client(fault).messages.create(**MESSAGE_ARGS)


def test_a_broken_stream_raises() -> None:
    fault = EngineFailure("The engine broke.")
    with pytest.raises(openai.APIError, match="The engine broke"):
        list(openai_client(CHAT, fault, late=True).chat.completions.create(**CHAT_ARGS, stream=True))
    with pytest.raises(anthropic.APIError, match="The engine broke"):
        list(anthropic_client(fault, late=True).messages.create(**MESSAGE_ARGS, stream=True))
