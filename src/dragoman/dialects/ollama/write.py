"""Events and answers as Ollama's chat and generate objects, one per line when streamed. Reads no request."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec import Struct

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.events import Event, Failed, Finished, Logprobs, PartDelta, PartEnd, PartKind, PartStart
from dragoman.core.finish import FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.usage import Timings, Usage
from dragoman.dialects.base import Frame, ReplyContext
from dragoman.dialects.ollama.errors import error_line
from dragoman.dialects.ollama.stamp import Clock, Stamp

_encode = msgspec.json.Encoder().encode

_LENGTHS = (FinishReason.LENGTH, FinishReason.CONTEXT)


class Shape(Struct, frozen=True):
    """The bytes around a value in a chunk, from the end of the time stamp on."""

    text: bytes
    thinking: bytes
    calls: bytes
    close: bytes


CHAT = Shape(
    text=b'","message":{"role":"assistant","content":',
    thinking=b'","message":{"role":"assistant","content":"","thinking":',
    calls=b'","message":{"role":"assistant","content":"","tool_calls":',
    close=b"}",
)
GENERATE = Shape(
    text=b'","response":',
    thinking=b'","response":"","thinking":',
    calls=b'","response":"","tool_calls":',
    close=b"",
)


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """`model` is the name the client used, which answers echo; `shape` CHAT or GENERATE. With `context` the end tells
    the ids of prompt and answer, from which another request can go on."""

    model: str
    shape: Shape
    logprobs: bool = False
    context: bool = False


class AnswerWriter:
    """Writes one answer. Each chunk carries the time it was written."""

    def __init__(self, options: ReplyOptions, context: ReplyContext, *, clock: Clock = time.time_ns) -> None:
        self._options = options
        self._shape = options.shape
        self._stamp = Stamp(clock)
        self._head = b'{"model":%b,"created_at":"' % _encode(options.model)
        self._kind: PartKind = "text"
        self._call = PartStart(0, 0, "tool_call")
        self._arguments: list[str] = []
        self._calls = 0
        self._held: tuple[bytes, bytes] | None = None
        self._prompt = context.in_force[0].prompt if options.context and context.in_force else None
        self._tokens: list[int] = []

    def frames(self, event: Event) -> list[Frame]:
        """Chunks for one event: text at once, a tool call whole when it is complete. `Failed` is an error line."""
        if isinstance(event, PartDelta):
            if self._prompt is not None:
                self._tokens += event.tokens
            return self._delta(event.text) if event.text else []
        if isinstance(event, PartStart):
            return [*self._release(), *self._begin(event)]
        if isinstance(event, Logprobs):
            return self._with_logprobs(event.entries)
        if isinstance(event, PartEnd):
            return self._complete() if self._kind == "tool_call" else self._release()
        if isinstance(event, Finished):
            return [*self._release(), Frame(self._final(event))]
        if isinstance(event, Failed):
            return [*self._release(), Frame(error_line(event.error))]
        return []

    def end(self) -> list[Frame]:
        """Nothing: the chunk with `done` is the end."""
        return []

    def whole(self, answer: Answer) -> bytes:
        """One object with everything."""
        choice = answer.choices[0]
        body: dict[str, Any] = {"model": self._options.model, "created_at": self._stamp.now().decode()}
        body |= self._told(choice)
        body |= self._ending(choice.finish.reason, choice.usage, choice.timings, choice.tokens)
        if self._options.logprobs and choice.logprobs:
            body["logprobs"] = _logprobs(choice.logprobs)
        return _encode(body)

    def _begin(self, event: PartStart) -> list[Frame]:
        self._kind = event.kind
        if event.kind == "tool_call":
            self._call = event
            self._arguments = []
        return []

    def _delta(self, text: str) -> list[Frame]:
        if self._kind == "tool_call":
            self._arguments.append(text)
            return []
        opening = self._shape.thinking if self._kind == "reasoning" else self._shape.text
        if not self._options.logprobs:
            return [Frame(self._chunk(opening, _encode(text)))]
        # The probabilities of a chunk's tokens come directly after it.
        frames = self._release()
        self._held = (opening, _encode(text))
        return frames

    def _with_logprobs(self, entries: Iterable[LogprobEntry]) -> list[Frame]:
        if not self._options.logprobs:
            return []
        opening, value = self._held or (self._shape.text, b'""')
        self._held = None
        return [Frame(self._chunk(opening, value, b',"logprobs":' + _encode(_logprobs(entries))))]

    def _release(self) -> list[Frame]:
        if self._held is None:
            return []
        opening, value = self._held
        self._held = None
        return [Frame(self._chunk(opening, value))]

    def _complete(self) -> list[Frame]:
        text = "".join(self._arguments)
        self._kind = "text"
        if _arguments(text) is None:
            return [Frame(self._chunk(self._shape.text, _encode(text)))] if text else []
        call = _call_object(self._calls, self._call.id, self._call.name, text)
        self._calls += 1
        return [Frame(self._chunk(self._shape.calls, _encode([call])))]

    def _chunk(self, opening: bytes, value: bytes, extra: bytes = b"") -> bytes:
        return b'%b%b%b%b%b%b,"done":false}' % (self._head, self._stamp.now(), opening, value, self._shape.close, extra)

    def _final(self, event: Finished) -> bytes:
        ending = _encode(self._ending(event.finish.reason, event.usage, event.timings, self._tokens))
        shape = self._shape
        return b'%b%b%b""%b,%b' % (self._head, self._stamp.now(), shape.text, shape.close, ending[1:])

    def _ending(self, reason: FinishReason, usage: Usage, timings: Timings, tokens: Iterable[int]) -> dict[str, Any]:
        """The keys that only the last object has; durations in nanoseconds. The model was loaded before the request."""
        prompt, predicted = _nanoseconds(timings.prompt_ms), _nanoseconds(timings.predicted_ms)
        context = {} if self._prompt is None else {"context": [*self._prompt, *tokens]}
        return {
            "done": True,
            "done_reason": "length" if reason in _LENGTHS else "stop",
            **context,
            "total_duration": _nanoseconds(timings.queued_ms) + prompt + predicted,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": prompt,
            "eval_count": usage.completion_tokens,
            "eval_duration": predicted,
        }

    def _told(self, choice: Choice) -> dict[str, Any]:
        content = "".join(part.text for part in choice.parts if _is_content(part))
        extra: dict[str, Any] = {}
        thinking = choice.text_of("reasoning")
        if thinking:
            extra["thinking"] = thinking
        whole = [part for part in choice.tool_calls if not _is_content(part)]
        calls = [_call_object(number, part.id, part.name, part.text) for number, part in enumerate(whole)]
        if calls:
            extra["tool_calls"] = calls
        if self._shape is GENERATE:
            return {"response": content, **extra}
        return {"message": {"role": "assistant", "content": content, **extra}}


def _is_content(part: AnswerPart) -> bool:
    """Whether a part is shown as text: text, and a call the limit cut off, which this wire could only tell as if it
    were complete."""
    return part.kind in ("text", "refusal") or (part.kind == "tool_call" and _arguments(part.text) is None)


def _call_object(number: int, call_id: str, name: str, arguments: str) -> dict[str, Any]:
    call: dict[str, Any] = {"id": call_id} if call_id else {}
    return {**call, "function": {"index": number, "name": name, "arguments": _arguments(arguments)}}


def _arguments(text: str) -> dict[str, Any] | None:
    """Arguments as the object this wire demands; None for what is no object."""
    try:
        value: object = msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _nanoseconds(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


def _logprobs(entries: Iterable[LogprobEntry]) -> list[dict[str, Any]]:
    return [{**_candidate(entry), "top_logprobs": [_candidate(rival) for rival in entry.top]} for entry in entries]


def _candidate(entry: LogprobEntry) -> dict[str, Any]:
    return {"token": entry.text, "logprob": entry.logprob, "bytes": list(entry.raw)}
