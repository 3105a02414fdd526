"""Events -> text_completion chunks, and a whole answer -> the text_completion object."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.answer import Answer, Choice
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartKind,
    PartStart,
    PromptLogprobs,
    PromptProgress,
    Started,
    UsageUpdate,
)
from dragoman.core.finish import FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.dialects.base import Frame, ReplyContext
from dragoman.dialects.openai_completions.logprobs import LegacyLogprobs, LogprobLog
from dragoman.dialects.openai_completions.ranking import best
from dragoman.dialects.openai_errors import error_body
from dragoman.dialects.openai_reply import DONE, chunk_head, reply_id
from dragoman.dialects.openai_timings import TimingsObject, timings_object
from dragoman.dialects.openai_usage import RunningUsage, UsageObject, answer_usage_object
from dragoman.dialects.openai_verbose import Told, verbose_choice, verbose_object

_LENGTH = (FinishReason.LENGTH, FinishReason.CONTEXT)
# A raw completion has one text; whatever the model wrote belongs to it.
_WRITTEN: tuple[PartKind, ...] = ("text", "reasoning", "refusal")
_json = msgspec.json.Encoder().encode


class CompletionReply(Struct, frozen=True, kw_only=True):
    """What the request asked of its reply. `echo` holds what to repeat of each prompt (None: its text as the engine's
    vocabulary spells it), or nothing; choice r*n + i answers prompt r. Of `best_of` answers to each the likeliest `n`
    are given, all of them where it is 0. `timings` puts an object of times on the last chunk of each choice, `verbose`
    llama-server's object beside it."""

    n: int = 1
    best_of: int = 0
    prompts: int = 1
    echo: tuple[str | None, ...] = ()
    include_usage: bool = False
    running_usage: bool = False
    logprobs: int | None = None
    timings: bool = False
    verbose: bool = False

    def echoed(self, choice: int, prompt_text: str) -> str:
        """The text to repeat before this choice."""
        text = self.echo[choice // self.n] if self.echo else ""
        return prompt_text if text is None else text


class WholeChoice(Struct, frozen=True, kw_only=True):
    """One entry of `choices`."""

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: str


class Completion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole body. `timings` and `verbose` are those of the first choice, as in llama-server."""

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
    """What the stream of one choice must remember; `held` is text that waits for its log probabilities, `told` is kept
    for `verbose`."""

    __slots__ = ("held", "kind", "log", "told")

    def __init__(self, log: LogprobLog) -> None:
        self.kind: PartKind | None = None
        self.held = ""
        self.log = log
        self.told = Told()


class CompletionWriter:
    """Writes one reply. The constant parts of a chunk are encoded once, so that a token costs one string encoding."""

    def __init__(self, context: ReplyContext, reply: CompletionReply) -> None:
        self._id = reply_id("cmpl-", context)
        self._context = context
        self._reply = reply
        self._states: dict[int, _ChoiceState] = {}
        self._usage = RunningUsage(reply.n)
        self._head = chunk_head(context, self._id, "text_completion")
        self._tail = b',"usage":null}' if reply.include_usage else b"}"

    def frames(self, event: Event) -> list[Frame]:
        """Chunks for one event; an echoed prompt comes before the first of its choice."""
        if isinstance(event, Failed):
            return [Frame(error_body(event.error))]
        state = self._states.get(event.choice)
        opening: list[Frame] = []
        if state is None:
            echoed = self._reply.echoed(event.choice, event.prompt_text if isinstance(event, Started) else "")
            state = self._states[event.choice] = _ChoiceState(self._log())
            opening = [self._chunk(event.choice, echoed)] if echoed else []
        frames = self._delta(event, state) if isinstance(event, PartDelta) else self._other(event, state)
        return opening + frames if opening else frames

    def end(self) -> list[Frame]:
        """The usage chunk where it was asked for, then the end mark."""
        if not self._reply.include_usage:
            return [DONE]
        usage = _json(self._usage.object)
        return [Frame(self._head + b'],"usage":' + usage + b"}"), DONE]

    def whole(self, answer: Answer) -> bytes:
        """The text_completion object."""
        made = self._reply.best_of or self._reply.n
        choices = best(answer, made, self._reply.n)
        return _json(
            Completion(
                id=self._id,
                object="text_completion",
                created=self._context.created,
                model=self._context.card.id,
                system_fingerprint=self._context.card.engine_build or None,
                choices=[self._whole_choice(choice) for choice in choices],
                usage=answer_usage_object(answer, made),
                timings=timings_object(choices[0].usage, choices[0].timings) if self._reply.timings else None,
                verbose=verbose_choice(choices[0], self._context.card.id) if self._reply.verbose else None,
            )
        )

    def _log(self) -> LogprobLog:
        """An echoed prompt has entries of its own here, so offsets begin with it."""
        return LogprobLog(self._reply.logprobs or 0)

    def _delta(self, event: PartDelta, state: _ChoiceState) -> list[Frame]:
        frames = self._release(event.choice, state) if state.held else []
        state.told.newline |= "\n" in event.text
        if self._reply.running_usage:
            self._usage.delta(event, reasoning=state.kind == "reasoning")
        if not event.text or state.kind not in _WRITTEN:
            return frames
        if self._reply.logprobs is not None:
            state.held = event.text
            return frames
        frames.append(self._chunk(event.choice, event.text))
        return frames

    def _other(self, event: Event, state: _ChoiceState) -> list[Frame]:
        if isinstance(event, Logprobs):
            return self._release(event.choice, state, event.entries)
        frames = self._release(event.choice, state) if state.held else []
        if isinstance(event, PartStart):
            state.kind = event.kind
        elif isinstance(event, PromptProgress):
            frames.append(self._progress(event))
        elif isinstance(event, PromptLogprobs):
            frames.append(self._chunk(event.choice, "", _json(state.log.block(event.entries, event.head))))
        elif isinstance(event, Finished):
            self._usage.reported(event)
            frames.append(self._last(event, state.told))
        elif isinstance(event, Started):
            self._usage.started(event)
            state.told.prompt = event.prompt_text
        elif isinstance(event, UsageUpdate):
            self._usage.reported(event)
        return frames

    def _release(self, choice: int, state: _ChoiceState, entries: tuple[LogprobEntry, ...] = ()) -> list[Frame]:
        """The held text with its log probabilities."""
        held, state.held = state.held, ""
        return [self._chunk(choice, held, _json(state.log.block(entries)) if entries else b"null")]

    def _chunk(self, choice: int, text: str, logprobs: bytes = b"null", finish: str | None = None) -> Frame:
        tail = self._tail
        if self._reply.running_usage:
            tail = b',"usage":' + _json(self._usage.object) + b"}"
        return Frame(
            b'%b{"index":%d,"text":%b,"logprobs":%b,"finish_reason":%b}]%b'
            % (self._head, choice, _json(text), logprobs, _json(finish), tail)
        )

    def _last(self, event: Finished, told: Told) -> Frame:
        """The chunk with the finish reason, and what was asked for beside it."""
        data = self._chunk(event.choice, "", finish=_finish(event.finish.reason)).data
        if self._reply.timings:
            data = data[:-1] + b',"timings":' + _json(timings_object(event.usage, event.timings)) + b"}"
        if self._reply.verbose:
            data = data[:-1] + b',"__verbose":' + _json(verbose_object(event, self._context.card.id, told)) + b"}"
        return Frame(data)

    def _progress(self, event: PromptProgress) -> Frame:
        """llama-server's object on a chunk that adds nothing."""
        progress = {
            "total": event.total,
            "cache": event.cached,
            "processed": event.processed,
            "time_ms": round(event.ms),
        }
        data = self._chunk(event.choice, "").data
        return Frame(data[:-1] + b',"prompt_progress":' + _json(progress) + b"}")

    def _whole_choice(self, choice: Choice) -> WholeChoice:
        written = "".join(part.text for part in choice.parts if part.kind in _WRITTEN)
        echoed = self._reply.echoed(choice.index, choice.prompt_text)
        return WholeChoice(
            index=choice.index,
            text=echoed + written,
            logprobs=self._whole_block(choice),
            finish_reason=_finish(choice.finish.reason),
        )

    def _whole_block(self, choice: Choice) -> LegacyLogprobs | None:
        if self._reply.logprobs is None:
            return None
        return self._log().block((*choice.prompt_logprobs, *choice.logprobs), choice.prompt_head)


def _finish(reason: FinishReason) -> str:
    return "length" if reason in _LENGTH else "stop"
