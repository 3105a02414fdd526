"""Events -> Messages stream events, and a whole answer -> the message object."""

from __future__ import annotations

import jiter
import msgspec

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.events import Event, Failed, Finished, PartDelta, PartEnd, PartKind, PartStart, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.operations import Counted
from dragoman.core.usage import Usage
from dragoman.dialects.anthropic.errors import error_body
from dragoman.dialects.anthropic.signature import sign
from dragoman.dialects.base import Frame, ReplyContext

PING = Frame(b'{"type":"ping"}', "ping")

_STOP = Frame(b'{"type":"message_stop"}', "message_stop")
_REASONS: dict[FinishReason, str] = {
    FinishReason.EOS: "end_turn",
    FinishReason.NONE: "end_turn",
    FinishReason.STOP: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTEXT: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
}
_TEXT_KINDS: tuple[PartKind, ...] = ("text", "refusal")
_json = msgspec.json.Encoder().encode


class UsageObject(msgspec.Struct, frozen=True):
    """Token counts; the prompt is `input_tokens` plus `cache_read_input_tokens`."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A text block."""

    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """A thinking block."""

    thinking: str
    signature: str


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A tool call; `input` is a JSON object."""

    id: str
    name: str
    input: msgspec.Raw


class MessageObject(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """The whole body, and the skeleton in `message_start`."""

    id: str
    role: str = "assistant"
    model: str
    content: list[Text | ThinkingBlock | ToolUse]
    stop_reason: str | None
    stop_sequence: str | None
    usage: UsageObject


class StopDelta(msgspec.Struct, frozen=True):
    """`delta` of `message_delta`."""

    stop_reason: str
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag_field="type", tag="message_delta"):
    """The end of a message."""

    delta: StopDelta
    usage: UsageObject


class MessageWriter:
    """Writes one reply. Text and thinking blocks open with their first character, so that an empty part is no block;
    the constant parts of a delta are encoded once per block. `omit_thinking` sends thoughts only inside signatures."""

    def __init__(self, context: ReplyContext, *, omit_thinking: bool = False) -> None:
        self._id = "msg_" + context.request_id.removeprefix("req_")
        self._context = context
        self._omit_thinking = omit_thinking
        self._started = False
        self._kind: PartKind | None = None
        self._blocks = 0
        self._prefix = b""
        self._thought: list[str] = []

    def frames(self, event: Event) -> list[Frame]:
        """Stream events for one event. A message that fails before it starts is an error event alone."""
        if isinstance(event, PartDelta):
            return self._delta(event) if event.text else []
        if isinstance(event, Failed):
            return [Frame(error_body(event.error, self._context.request_id), "error")]
        if isinstance(event, Started):
            return self._start(event.prompt_tokens, event.cached_tokens)
        if isinstance(event, PartStart):
            self._kind = event.kind
            return self._open_call(event) if event.kind == "tool_call" else []
        if isinstance(event, PartEnd):
            return self._close()
        return self._finish(event) if isinstance(event, Finished) else []

    def end(self) -> list[Frame]:
        """The end mark."""
        return [_STOP]

    def whole(self, answer: Answer) -> bytes:
        """The message object. There is one choice on this wire."""
        choice = answer.choices[0]
        reason, sequence = _stop(choice.finish)
        return _json(self._message(_blocks(choice, self._omit_thinking), reason, sequence, choice.usage))

    def _message(
        self, content: list[Text | ThinkingBlock | ToolUse], reason: str | None, sequence: str | None, usage: Usage
    ) -> MessageObject:
        return MessageObject(
            id=self._id,
            model=self._context.card.id,
            content=content,
            stop_reason=reason,
            stop_sequence=sequence,
            usage=_usage(usage),
        )

    def _start(self, prompt_tokens: int, cached_tokens: int) -> list[Frame]:
        if self._started:
            return []
        self._started = True
        message = self._message([], None, None, Usage(prompt_tokens, 0, cached_tokens))
        return [Frame(b'{"type":"message_start","message":' + _json(message) + b"}", "message_start"), PING]

    def _delta(self, event: PartDelta) -> list[Frame]:
        frames = [] if self._prefix else self._open_text()
        if self._kind == "reasoning" and self._omit_thinking:
            self._thought.append(event.text)
        elif self._prefix:
            frames.append(Frame(self._prefix + _json(event.text) + b"}}", "content_block_delta"))
        return frames

    def _open_text(self) -> list[Frame]:
        if self._kind == "reasoning":
            return [self._open(ThinkingBlock("", ""), b"thinking_delta", b"thinking")]
        if self._kind in _TEXT_KINDS:
            return [self._open(Text(""), b"text_delta", b"text")]
        return []

    def _open_call(self, event: PartStart) -> list[Frame]:
        block = ToolUse(event.id, event.name, msgspec.Raw(b"{}"))
        return [self._open(block, b"input_json_delta", b"partial_json")]

    def _open(self, block: Text | ThinkingBlock | ToolUse, delta: bytes, key: bytes) -> Frame:
        start = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
        self._prefix = start % (self._blocks, delta, key)
        opening = b'{"type":"content_block_start","index":%d,"content_block":%b}' % (self._blocks, _json(block))
        return Frame(opening, "content_block_start")

    def _close(self) -> list[Frame]:
        if not self._prefix:
            return []
        index, self._blocks = self._blocks, self._blocks + 1
        frames = [self._signature(index)] if self._kind == "reasoning" else []
        self._prefix, self._kind = b"", None
        return [*frames, Frame(b'{"type":"content_block_stop","index":%d}' % index, "content_block_stop")]

    def _signature(self, index: int) -> Frame:
        thought, self._thought = "".join(self._thought), []
        delta = b'{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%b}}'
        return Frame(delta % (index, _json(sign(thought))), "content_block_delta")

    def _finish(self, event: Finished) -> list[Frame]:
        frames = self._start(event.usage.prompt_tokens, event.usage.cached_tokens) + self._close()
        delta = MessageDelta(StopDelta(*_stop(event.finish)), _usage(event.usage))
        return [*frames, Frame(_json(delta), "message_delta")]


def write_count(counted: Counted) -> bytes:
    """The reply of count_tokens."""
    return _json({"input_tokens": counted.prompt_tokens})


def _usage(usage: Usage) -> UsageObject:
    return UsageObject(usage.prompt_tokens - usage.cached_tokens, usage.completion_tokens, 0, usage.cached_tokens)


def _stop(finish: Finish) -> tuple[str, str | None]:
    return _REASONS[finish.reason], finish.stop_match if finish.reason is FinishReason.STOP else None


def _blocks(choice: Choice, omit_thinking: bool) -> list[Text | ThinkingBlock | ToolUse]:
    found: list[Text | ThinkingBlock | ToolUse] = []
    for part in choice.parts:
        if part.kind == "tool_call":
            found.append(ToolUse(part.id, part.name, msgspec.Raw(_input_json(part))))
        elif part.kind == "reasoning" and part.text:
            found.append(ThinkingBlock("", sign(part.text)) if omit_thinking else ThinkingBlock(part.text, sign()))
        elif part.kind in _TEXT_KINDS and part.text:
            found.append(Text(part.text))
    return found


def _input_json(part: AnswerPart) -> bytes:
    """The arguments as they were written, so that no number changes; {} for none. Of a call the limit cut off, what
    is complete of it: the SDK's accumulator makes the same of the streamed fragments."""
    text = part.text.encode()
    if not text.strip():
        return b"{}"
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _json(jiter.from_json(text, partial_mode=True))
    return text
