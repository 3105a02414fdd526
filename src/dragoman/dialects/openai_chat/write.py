"""Events -> Chat Completions chunks, and a whole answer -> the chat.completion object."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartKind,
    PartStart,
    PromptProgress,
    Started,
    UsageUpdate,
)
from dragoman.core.finish import FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.dialects.base import Frame, ReplyContext
from dragoman.dialects.openai_chat.logprobs import LogprobBlock, logprob_block
from dragoman.dialects.openai_errors import error_body
from dragoman.dialects.openai_reply import DONE, chunk_head, reply_id
from dragoman.dialects.openai_timings import TimingsObject, timings_object
from dragoman.dialects.openai_usage import RunningUsage, UsageObject, answer_usage_object
from dragoman.dialects.openai_verbose import Told, verbose_choice, verbose_object

_FINISH: dict[FinishReason, str] = {
    FinishReason.EOS: "stop",
    FinishReason.STOP: "stop",
    FinishReason.NONE: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
}
_TEXT_PREFIXES: dict[PartKind, bytes] = {
    "text": b'{"content":',
    "reasoning": b'{"reasoning_content":',
    "refusal": b'{"refusal":',
}
_json = msgspec.json.Encoder().encode


class ChatReply(Struct, frozen=True, kw_only=True):
    """What the request asked of its reply. `running_usage` puts counts on each chunk; `legacy_calls` writes
    `function_call` for clients of the old `functions` field; without `thoughts` the reply leaves them out; `timings`
    puts an object of times on the last chunk of each choice, `verbose` llama-server's object beside it."""

    n: int = 1
    include_usage: bool = False
    running_usage: bool = False
    logprobs: bool = False
    legacy_calls: bool = False
    thoughts: bool = True
    timings: bool = False
    verbose: bool = False


class Function(Struct, frozen=True):
    """A call's function; `arguments` is JSON text."""

    name: str
    arguments: str


class Call(Struct, frozen=True):
    """One entry of `tool_calls`."""

    id: str
    function: Function
    type: str = "function"


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The assistant message of a choice."""

    role: str
    content: str | None
    refusal: str | None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


class WholeChoice(Struct, frozen=True, kw_only=True):
    """One entry of `choices`."""

    index: int
    message: Message
    logprobs: LogprobBlock | None
    finish_reason: str


class ChatCompletion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole body. `timings` are those of the first choice, as in llama-server."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[WholeChoice]
    usage: UsageObject
    verbose: dict[str, Any] | None = msgspec.field(default=None, name="__verbose")
    timings: TimingsObject | None = None


class _ChoiceState:
    """What the stream of one choice must remember: `prefix` and `suffix` surround a text inside `delta`, `start` and
    `stop` inside a whole chunk; `calls` counts tool calls; `held` is a text that waits for its log probabilities;
    `told` is kept for `verbose`."""

    __slots__ = ("calls", "held", "kind", "prefix", "start", "stop", "suffix", "told")

    def __init__(self) -> None:
        self.kind: PartKind | None = None
        self.prefix = b""
        self.suffix = b""
        self.start = b""
        self.stop = b""
        self.calls = 0
        self.held: PartDelta | None = None
        self.told = Told()


class ChatWriter:
    """Writes one reply. The constant parts of a chunk are encoded once, so that a token costs one string encoding."""

    def __init__(self, context: ReplyContext, reply: ChatReply) -> None:
        self._id = reply_id("chatcmpl-", context)
        self._context = context
        self._reply = reply
        self._states: dict[int, _ChoiceState] = {}
        self._usage = RunningUsage(reply.n)
        start = chunk_head(context, self._id, "chat.completion.chunk")
        self._head, self._no_choices = start + b'{"index":', start + b"]"
        self._tail = b',"usage":null}' if reply.include_usage else b"}"
        self._plain = not (reply.logprobs or reply.running_usage or reply.verbose)

    def frames(self, event: Event) -> list[Frame]:
        """Chunks for one event. The role chunks of all choices come first, in order of index, because accumulators
        of the official SDK place choices by arrival."""
        if isinstance(event, PartDelta) and self._plain and self._states:
            state = self._states[event.choice]
            return [Frame(state.start + _json(event.text) + state.stop)] if event.text and state.start else []
        if isinstance(event, Failed):
            return [Frame(error_body(event.error))]
        opening = [] if self._states else self._open()
        return opening + (self._delta(event) if isinstance(event, PartDelta) else self._other(event))

    def end(self) -> list[Frame]:
        """The usage chunk where it was asked for, then the end mark."""
        if not self._reply.include_usage:
            return [DONE]
        usage = _json(self._usage.object)
        return [Frame(self._no_choices + b',"usage":' + usage + b"}"), DONE]

    def whole(self, answer: Answer) -> bytes:
        """The chat.completion object."""
        return _json(
            ChatCompletion(
                id=self._id,
                object="chat.completion",
                created=self._context.created,
                model=self._context.card.id,
                system_fingerprint=self._context.card.engine_build or None,
                choices=[self._whole_choice(choice) for choice in answer.choices],
                usage=answer_usage_object(answer, self._reply.n),
                timings=self._timings(answer) if self._reply.timings else None,
                verbose=self._verbose(answer) if self._reply.verbose else None,
            )
        )

    def _timings(self, answer: Answer) -> TimingsObject | None:
        first = next(iter(answer.choices), None)
        return None if first is None else timings_object(first.usage, first.timings)

    def _verbose(self, answer: Answer) -> dict[str, Any] | None:
        first = next(iter(answer.choices), None)
        return None if first is None else verbose_choice(first, self._context.card.id)

    def _open(self) -> list[Frame]:
        self._states = {choice: _ChoiceState() for choice in range(self._reply.n)}
        return [self._chunk(choice, b'{"role":"assistant","content":""}') for choice in self._states]

    def _other(self, event: Event) -> list[Frame]:
        state = self._states[event.choice]
        if isinstance(event, Logprobs):
            return self._release(event.choice, state, event.entries)
        frames = self._release(event.choice, state) if state.held is not None else []
        if isinstance(event, PartStart):
            frames += self._start(event, state)
        elif isinstance(event, PromptProgress):
            frames.append(self._progress(event))
        elif isinstance(event, Finished):
            self._usage.reported(event)
            frames.append(self._last(event))
        elif isinstance(event, Started):
            self._usage.started(event)
            state.told.prompt = event.prompt_text
        elif isinstance(event, UsageUpdate):
            self._usage.reported(event)
        return frames

    def _start(self, event: PartStart, state: _ChoiceState) -> list[Frame]:
        state.kind = event.kind
        if event.kind == "tool_call":
            frames = self._start_call(event, state)
        else:
            frames = []
            hidden = event.kind == "reasoning" and not self._reply.thoughts
            state.prefix, state.suffix = b"" if hidden else _TEXT_PREFIXES.get(event.kind, b""), b"}"
        state.start = b'%b%d,"delta":%b' % (self._head, event.choice, state.prefix) if state.prefix else b""
        state.stop = b'%b,"logprobs":null,"finish_reason":null}]%b' % (state.suffix, self._tail)
        return frames

    def _start_call(self, event: PartStart, state: _ChoiceState) -> list[Frame]:
        function = _json(Function(event.name, ""))
        if self._reply.legacy_calls:
            state.prefix, state.suffix = b'{"function_call":{"arguments":', b"}}"
            return [self._chunk(event.choice, b'{"function_call":%b}' % function)]
        call = b'{"tool_calls":[{"index":%d,' % state.calls
        state.calls += 1
        state.prefix, state.suffix = call + b'"function":{"arguments":', b"}}]}"
        opening = b'%b"id":%b,"type":"function","function":%b}]}' % (call, _json(event.id), function)
        return [self._chunk(event.choice, opening)]

    def _delta(self, event: PartDelta) -> list[Frame]:
        state = self._states[event.choice]
        frames = self._release(event.choice, state) if state.held is not None else []
        if self._reply.running_usage:
            self._usage.delta(event, reasoning=state.kind == "reasoning")
        state.told.newline |= "\n" in event.text
        if not (event.text and state.prefix):
            return frames
        if self._reply.logprobs and state.kind != "tool_call":
            state.held = event
            return frames
        frames.append(self._chunk(event.choice, state.prefix + _json(event.text) + state.suffix))
        return frames

    def _release(self, choice: int, state: _ChoiceState, entries: tuple[LogprobEntry, ...] = ()) -> list[Frame]:
        """The held delta with its log probabilities; entries without a delta ride on an empty one."""
        held, state.held = state.held, None
        delta = b"{}" if held is None else state.prefix + _json(held.text) + state.suffix
        return [self._chunk(choice, delta, _json(logprob_block(entries)) if entries else b"null")]

    def _chunk(self, choice: int, delta: bytes, logprobs: bytes = b"null", finish: bytes = b"null") -> Frame:
        tail = self._tail
        if self._reply.running_usage:
            tail = b',"usage":' + _json(self._usage.object) + b"}"
        return Frame(
            b'%b%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]%b'
            % (self._head, choice, delta, logprobs, finish, tail)
        )

    def _last(self, event: Finished) -> Frame:
        """The chunk with the finish reason, and the times where they were asked for."""
        data = self._chunk(event.choice, b"{}", finish=self._finish(event.finish.reason)).data
        if self._reply.timings:
            data = data[:-1] + b',"timings":' + _json(timings_object(event.usage, event.timings)) + b"}"
        if self._reply.verbose:
            shown = verbose_object(event, self._context.card.id, self._states[event.choice].told)
            data = data[:-1] + b',"__verbose":' + _json(shown) + b"}"
        return Frame(data)

    def _progress(self, event: PromptProgress) -> Frame:
        """llama-server's object on a chunk that adds nothing."""
        progress = {
            "total": event.total,
            "cache": event.cached,
            "processed": event.processed,
            "time_ms": round(event.ms),
        }
        data = self._chunk(event.choice, b"{}").data
        return Frame(data[:-1] + b',"prompt_progress":' + _json(progress) + b"}")

    def _finish(self, reason: FinishReason) -> bytes:
        return _json(self._finish_word(reason))

    def _finish_word(self, reason: FinishReason) -> str:
        if reason is FinishReason.TOOL_CALLS and self._reply.legacy_calls:
            return "function_call"
        return _FINISH[reason]

    def _whole_choice(self, choice: Choice) -> WholeChoice:
        return WholeChoice(
            index=choice.index,
            message=self._message(choice),
            logprobs=logprob_block(choice.logprobs) if self._reply.logprobs else None,
            finish_reason=self._finish_word(choice.finish.reason),
        )

    def _message(self, choice: Choice) -> Message:
        text, refusal = choice.text_of("text"), choice.text_of("refusal")
        calls = choice.tool_calls
        legacy = self._reply.legacy_calls
        return Message(
            role="assistant",
            content=text if text or not (calls or refusal) else None,
            refusal=refusal or None,
            reasoning_content=(choice.text_of("reasoning") or None) if self._reply.thoughts else None,
            tool_calls=[Call(call.id, _function(call)) for call in calls] if calls and not legacy else None,
            function_call=_function(calls[0]) if calls and legacy else None,
        )


def _function(call: AnswerPart) -> Function:
    return Function(call.name, call.text)
