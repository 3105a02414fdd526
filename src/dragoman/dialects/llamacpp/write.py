"""Events and answers in llama-server's native words. One writer serves one reply; it reads no request."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from dragoman.core.answer import Answer, Choice
from dragoman.core.events import Event, Failed, Finished, Logprobs, PartDelta, PromptProgress, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.usage import Timings, Usage
from dragoman.dialects.base import Frame, ReplyContext
from dragoman.dialects.llamacpp.errors import error_reply
from dragoman.dialects.llamacpp.probabilities import ProbabilityList
from dragoman.dialects.llamacpp.schema import RANDOM_SEED
from dragoman.dialects.llamacpp.settings import settings_in_force
from dragoman.dialects.llamacpp.timings import timings_object

_encode = msgspec.json.Encoder().encode

_MISSING = object()
_STOP_TYPES = {
    FinishReason.EOS: "eos",
    FinishReason.TOOL_CALLS: "eos",
    FinishReason.STOP: "word",
    FinishReason.LENGTH: "limit",
    FinishReason.CONTEXT: "limit",
    FinishReason.NONE: "none",
}


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """What only the writer needs of a request. `answers` per prompt, `results` in all; `settings` as echoed;
    `post_sampling` shows probabilities instead of their logarithms."""

    settings: dict[str, Any]
    results: int = 1
    answers: int = 1
    return_tokens: bool = False
    response_fields: tuple[str, ...] = ()
    probabilities: bool = False
    post_sampling: bool = False
    timings_per_token: bool = False


class _Stream(Struct):
    """One choice as streamed so far. `head` and `tail` are the constant ends of its frames; times in seconds."""

    index: int
    head: bytes
    tail: bytes
    prompt_tokens: int
    cached_tokens: int
    prompt_text: str
    began: float
    first: float | None = None
    predicted: int = 0
    newline: bool = False
    held: PartDelta | None = None
    held_timings: bytes = b""
    probabilities: ProbabilityList = field(default_factory=ProbabilityList)


class _Result(Struct, frozen=True, kw_only=True):
    """What a final object says."""

    index: int
    content: str
    tokens: tuple[int, ...]
    slot: int
    prompt: str
    newline: bool
    finish: Finish
    usage: Usage
    timings: Timings
    held: int | None
    probabilities: list[dict[str, Any]]


class CompletionWriter:
    """Writes the answer to /completion. `clock` gives seconds and is read only for `timings_per_token`."""

    def __init__(
        self, options: ReplyOptions, context: ReplyContext, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        if context.in_force:
            settings = settings_in_force(options.settings, context.in_force[0])
            options = msgspec.structs.replace(options, settings=settings)
        self._options = options
        self._card = context.card
        self._request_id = context.request_id
        self._clock = clock
        self._streams: dict[int, _Stream] = {}
        # A frame is held back only while something that belongs to it may still come: its probabilities, or the
        # timings that the last frame before a stop word carries. Held frames of the second kind have no text.
        self._holds_all = options.probabilities
        self._holds_empty = bool(options.settings["stop"])
        self._plain = not options.probabilities and not options.timings_per_token

    def frames(self, event: Event) -> list[Frame]:
        """Frames for one event. `Failed` is the error envelope as a frame."""
        if isinstance(event, PartDelta):
            return self._delta(event)
        if isinstance(event, Logprobs):
            return self._with_probabilities(event)
        if isinstance(event, Started):
            self._streams[event.choice] = self._start(event)
            return []
        if isinstance(event, PromptProgress):
            return [self._progress(event)]
        if isinstance(event, Finished):
            return self._finish(event)
        if isinstance(event, Failed):
            return [*self._release_all(), Frame(error_reply(event.error, self._request_id).body)]
        return []

    def end(self) -> list[Frame]:
        """Nothing: this wire has no end mark."""
        return []

    def whole(self, answer: Answer) -> bytes:
        """One object for one prompt and one answer, else an array ordered by index."""
        results = [self._final(self._result(choice)) for choice in answer.choices]
        return _encode(results[0] if self._options.results == 1 else results)

    def _start(self, event: Started) -> _Stream:
        return _Stream(
            index=event.choice,
            head=b'{"index":%d,"content":' % event.choice,
            tail=b',"tokens_evaluated":%d}' % event.prompt_tokens,
            prompt_tokens=event.prompt_tokens,
            cached_tokens=event.cached_tokens,
            prompt_text=event.prompt_text,
            began=self._clock(),
            probabilities=ProbabilityList(self._options.post_sampling),
        )

    def _delta(self, delta: PartDelta) -> list[Frame]:
        stream = self._streams[delta.choice]
        if not delta.tokens and not delta.text:
            return []
        if self._plain and stream.held is None and (delta.text or not self._holds_empty):
            return [Frame(_partial(stream, delta))]
        frames = self._release(stream)
        if self._options.timings_per_token:
            stream.held_timings = self._running_timings(stream, len(delta.tokens))
        stream.held = delta
        if self._holds_all or (self._holds_empty and not delta.text):
            return frames
        return [*frames, *self._release(stream)]

    def _with_probabilities(self, event: Logprobs) -> list[Frame]:
        stream = self._streams[event.choice]
        entries = stream.probabilities.take(event.entries)
        if not entries or stream.held is None:
            return self._release(stream)
        return self._release(stream, b',"completion_probabilities":%b' % _encode(entries))

    def _release(self, stream: _Stream, extra: bytes = b"") -> list[Frame]:
        delta, timings = stream.held, stream.held_timings
        if delta is None:
            return []
        stream.held, stream.held_timings = None, b""
        body = _partial(stream, delta)
        if timings or extra:
            body = b"%b%b%b}" % (body[:-1], timings, extra)
        return [Frame(body)]

    def _release_all(self) -> list[Frame]:
        return [frame for stream in self._streams.values() for frame in self._release(stream)]

    def _running_timings(self, stream: _Stream, sampled: int) -> bytes:
        now = self._clock()
        if stream.first is None:
            stream.first = now
        usage = Usage(stream.prompt_tokens, stream.predicted + sampled, stream.cached_tokens)
        timings = Timings((stream.first - stream.began) * 1e3, (now - stream.first) * 1e3)
        return b',"timings":%b' % _encode(timings_object(usage, timings))

    def _progress(self, event: PromptProgress) -> Frame:
        stream = self._streams[event.choice]
        progress = {
            "total": event.total,
            "cache": event.cached,
            "processed": event.processed,
            "time_ms": int(event.ms),
        }
        # Token id 0 is what llama-server's unset field shows in these frames.
        head = b'%b"","tokens":[0],"stop":false,"id_slot":-1,"tokens_predicted":0' % stream.head
        return Frame(b'%b%b,"prompt_progress":%b}' % (head, stream.tail[:-1], _encode(progress)))

    def _finish(self, event: Finished) -> list[Frame]:
        stream = self._streams.get(event.choice) or self._start(Started(event.choice, event.usage.prompt_tokens))
        if event.finish.reason is FinishReason.STOP and stream.held is not None and not stream.held_timings:
            stream.held_timings = b',"timings":%b' % _encode(timings_object(event.usage, event.timings))
        frames = self._release(stream)
        result = _Result(
            index=event.choice,
            content="",
            tokens=(),
            slot=event.slot,
            prompt=stream.prompt_text,
            newline=stream.newline,
            finish=event.finish,
            usage=event.usage,
            timings=event.timings,
            held=event.held,
            probabilities=[],
        )
        return [*frames, Frame(_encode(self._final(result)))]

    def _result(self, choice: Choice) -> _Result:
        content = "".join(part.text for part in choice.parts)[: choice.kept]
        wanted = self._options.probabilities
        return _Result(
            index=choice.index,
            content=content,
            tokens=choice.tokens if self._options.return_tokens else (),
            slot=choice.slot,
            prompt=choice.prompt_text,
            newline="\n" in content,
            finish=choice.finish,
            usage=choice.usage,
            timings=choice.timings,
            held=choice.held,
            probabilities=ProbabilityList(self._options.post_sampling).take(choice.logprobs) if wanted else [],
        )

    def _final(self, result: _Result) -> dict[str, Any]:
        usage = result.usage
        body: dict[str, Any] = {
            "index": result.index,
            "content": result.content,
            "tokens": result.tokens,
            "id_slot": result.slot,
            "stop": True,
            "model": self._card.id,
            "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": self._settings(result.index),
            "prompt": result.prompt,
            "has_new_line": result.newline,
            "truncated": self._truncated(result),
            "stop_type": _STOP_TYPES[result.finish.reason],
            "stopping_word": result.finish.stop_match or "",
            "tokens_cached": _cached(result),
            "timings": timings_object(usage, result.timings),
        }
        if result.probabilities:
            body["completion_probabilities"] = result.probabilities
        return _projected(body, self._options.response_fields)

    def _settings(self, index: int) -> dict[str, Any]:
        settings = self._options.settings
        answer = index % self._options.answers
        if not answer or settings["seed"] == RANDOM_SEED:
            return settings
        return {**settings, "seed": (settings["seed"] + answer) % 2**32}

    def _truncated(self, result: _Result) -> bool:
        """Whether the window was shifted, or it, not the request's own limit, ended the answer."""
        if result.held is not None:
            return True
        if result.finish.reason is FinishReason.CONTEXT:
            return True
        if result.finish.reason is not FinishReason.LENGTH:
            return False
        wanted = self._options.settings["n_predict"]
        cut_short = wanted < 0 or result.usage.completion_tokens < wanted
        return cut_short and result.usage.total_tokens >= self._card.context_length > 0


def _cached(result: _Result) -> int:
    """What the slot holds by now. The last sampled token is not yet in it."""
    if result.held is not None:
        return result.held
    return max(0, result.usage.prompt_tokens + result.usage.completion_tokens - 1)


def _partial(stream: _Stream, delta: PartDelta) -> bytes:
    tokens = delta.tokens
    stream.predicted += len(tokens)
    text = delta.text
    if not stream.newline and "\n" in text:
        stream.newline = True
    # A frame shows one id: of several tokens, the one that completed the text.
    shown = b"%d" % tokens[-1] if tokens else b""
    return b'%b%b,"tokens":[%b],"stop":false,"id_slot":-1,"tokens_predicted":%d%b' % (
        stream.head,
        _encode(text),
        shown,
        stream.predicted,
        stream.tail,
    )


def _projected(body: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """The values at `paths` under their full path; what is not there is left out. No paths: everything."""
    if not paths:
        return body
    found: dict[str, Any] = {}
    for path in paths:
        value: object = body
        for key in path.split("/"):
            value = cast("dict[str, object]", value).get(key, _MISSING) if isinstance(value, dict) else _MISSING
        if value is not _MISSING:
            found[path] = value
    return found
