"""Events -> Messages stream events, and a whole answer -> the message object."""

from __future__ import annotations

import jiter
import msgspec

from dragoman.core.answer import Answer, AnswerPart
from dragoman.core.events import Event, Failed, Finished, PartDelta, PartEnd, PartKind, PartStart, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.operations import Counted
from dragoman.core.signatures import UNSIGNED
from dragoman.core.usage import Usage
from dragoman.dialects.anthropic.edits import ContextReport, report
from dragoman.dialects.anthropic.errors import error_body
from dragoman.dialects.base import Frame, ReplyContext

PING = Frame(b'{"type":"ping"}', "ping")

_STOP = Frame(b'{"type":"message_stop"}', "message_stop")
_REASONS: dict[FinishReason, str] = {
    FinishReason.EOS: "end_turn",
    FinishReason.NONE: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTEXT: "model_context_window_exceeded",
    FinishReason.TOOL_CALLS: "tool_use",
}
_TEXT_KINDS: tuple[PartKind, ...] = ("text", "refusal")
_json = msgspec.json.Encoder().encode


class OutputDetails(msgspec.Struct, frozen=True):
    """What the answer's tokens were."""

    thinking_tokens: int


class UsageObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts; the prompt is `input_tokens` plus `cache_read_input_tokens`. Nothing is charged for what is put
    into the cache, so that no token is reported as that. `output_tokens_details` are there once the answer is."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens_details: OutputDetails | None = None


class ReplyRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says about its answer. `omit_thinking` sends thoughts only inside signatures, `report_edits` tells
    what was left out of the conversation, `partial_strings` keeps the string in which a call was cut off."""

    max_tokens: int
    omit_thinking: bool = False
    report_edits: bool = False
    partial_strings: bool = False


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


Block = Text | ThinkingBlock | ToolUse


class MessageObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="message"):
    """The whole body, and the skeleton in `message_start`."""

    id: str
    role: str
    model: str
    content: list[Block]
    stop_reason: str | None
    stop_sequence: str | None
    usage: UsageObject
    context_management: ContextReport | None = None


class StopDelta(msgspec.Struct, frozen=True):
    """`delta` of `message_delta`."""

    stop_reason: str
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="message_delta"):
    """The end of a message."""

    delta: StopDelta
    usage: UsageObject
    context_management: ContextReport | None = None


class OriginalCount(msgspec.Struct, frozen=True):
    """`context_management` of a count."""

    original_input_tokens: int


class TokenCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reply of count_tokens."""

    input_tokens: int
    context_management: OriginalCount | None = None


class MessageWriter:
    """Writes one reply. Text and thinking blocks open with their first character, so that an empty part is no block;
    the constant parts of a delta are encoded once per block."""

    def __init__(self, context: ReplyContext, rules: ReplyRules) -> None:
        self._id = "msg_" + context.request_id.removeprefix("req_")
        self._context = context
        self._rules = rules
        self._edits = report(context.edits) if rules.report_edits else None
        self._started = False
        self._kind: PartKind | None = None
        self._blocks = 0
        self._prefix = b""
        self._blank_input = False
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
        stop = self._stop(choice.finish, choice.usage)
        return _json(
            MessageObject(
                id=self._id,
                role="assistant",
                model=self._context.card.id,
                content=[block for part in choice.parts if (block := self._block(part)) is not None],
                stop_reason=stop.stop_reason,
                stop_sequence=stop.stop_sequence,
                usage=_final_usage(choice.usage),
                context_management=self._edits,
            )
        )

    def _start(self, prompt_tokens: int, cached_tokens: int) -> list[Frame]:
        if self._started:
            return []
        self._started = True
        message = MessageObject(
            id=self._id,
            role="assistant",
            model=self._context.card.id,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=_usage(Usage(prompt_tokens, 0, cached_tokens)),
        )
        return [Frame(b'{"type":"message_start","message":' + _json(message) + b"}", "message_start"), PING]

    def _delta(self, event: PartDelta) -> list[Frame]:
        frames = [] if self._prefix else self._open_text()
        text = event.text
        if self._kind == "reasoning":
            self._thought.append(text)
            text = "" if self._rules.omit_thinking else text
        elif self._blank_input:
            text = text.lstrip()  # the SDK's accumulator fails on an input that is nothing but white space so far
            self._blank_input = not text
        if self._prefix and text:
            frames.append(Frame(self._prefix + _json(text) + b"}}", "content_block_delta"))
        return frames

    def _open_text(self) -> list[Frame]:
        if self._kind == "reasoning":
            return [self._open(ThinkingBlock("", ""), b"thinking_delta", b"thinking")]
        if self._kind in _TEXT_KINDS:
            return [self._open(Text(""), b"text_delta", b"text")]
        return []

    def _open_call(self, event: PartStart) -> list[Frame]:
        block = ToolUse(event.id, event.name, msgspec.Raw(b"{}"))
        self._blank_input = True
        return [self._open(block, b"input_json_delta", b"partial_json")]

    def _open(self, block: Block, delta: bytes, key: bytes) -> Frame:
        start = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
        self._prefix = start % (self._blocks, delta, key)
        opening = b'{"type":"content_block_start","index":%d,"content_block":%b}' % (self._blocks, _json(block))
        return Frame(opening, "content_block_start")

    def _close(self) -> list[Frame]:
        if not self._prefix:
            return []
        index, self._blocks = self._blocks, self._blocks + 1
        self._blank_input = False
        frames = [self._signature(index)] if self._kind == "reasoning" else []
        self._prefix, self._kind = b"", None
        return [*frames, Frame(b'{"type":"content_block_stop","index":%d}' % index, "content_block_stop")]

    def _signature(self, index: int) -> Frame:
        thought, self._thought = "".join(self._thought), []
        delta = b'{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%b}}'
        return Frame(delta % (index, _json(self._sign(thought))), "content_block_delta")

    def _sign(self, thought: str) -> str:
        """Clients replay only thoughts that are signed."""
        if self._context.signer is None:
            return UNSIGNED
        return self._context.signer.sign("thinkingc" if self._rules.omit_thinking else "thinking", thought)

    def _finish(self, event: Finished) -> list[Frame]:
        frames = self._start(event.usage.prompt_tokens, event.usage.cached_tokens) + self._close()
        delta = MessageDelta(self._stop(event.finish, event.usage), _final_usage(event.usage), self._edits)
        return [*frames, Frame(_json(delta), "message_delta")]

    def _stop(self, finish: Finish, usage: Usage) -> StopDelta:
        """A limit that was not reached is the window's: the request's own was more than there was room for."""
        if finish.reason is FinishReason.STOP:
            return StopDelta("stop_sequence", finish.stop_match)
        full = usage.total_tokens >= self._context.card.context_length
        if finish.reason is FinishReason.LENGTH and full and usage.completion_tokens < self._rules.max_tokens:
            return StopDelta(_REASONS[FinishReason.CONTEXT], None)
        return StopDelta(_REASONS[finish.reason], None)

    def _block(self, part: AnswerPart) -> Block | None:
        if part.kind == "tool_call":
            return ToolUse(part.id, part.name, msgspec.Raw(_input_json(part, self._rules.partial_strings)))
        if not part.text:
            return None
        if part.kind == "reasoning":
            return ThinkingBlock("" if self._rules.omit_thinking else part.text, self._sign(part.text))
        return Text(part.text) if part.kind in _TEXT_KINDS else None


def write_count(counted: Counted) -> bytes:
    """The reply of count_tokens."""
    return _json(TokenCount(counted.prompt_tokens))


def write_edited_count(counted: Counted) -> bytes:
    """The reply of count_tokens for a conversation with edits: how many tokens it has after and before them."""
    return _json(TokenCount(counted.prompt_tokens, OriginalCount(counted.original_tokens)))


def _usage(usage: Usage) -> UsageObject:
    return UsageObject(usage.prompt_tokens - usage.cached_tokens, usage.completion_tokens, 0, usage.cached_tokens)


def _final_usage(usage: Usage) -> UsageObject:
    return msgspec.structs.replace(_usage(usage), output_tokens_details=OutputDetails(usage.reasoning_tokens))


def _input_json(part: AnswerPart, partial_strings: bool) -> bytes:
    """The arguments as they were written, so that no number changes; {} for none. Of a call the limit cut off, what
    the SDK's accumulator makes of the streamed fragments: members that are complete, and, for who asked for fragments
    as they come, a string that is not."""
    text = part.text.encode()
    if not text.strip():
        return b"{}"
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _json(jiter.from_json(text, partial_mode="trailing-strings" if partial_strings else True))
    return text
