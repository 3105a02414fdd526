"""Events -> the typed event stream of Responses, and a whole answer -> the response object.

A whole answer is written by running its events through the stream's own code, so the two agree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
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
    PartEnd,
    PartKind,
    PartStart,
    PromptProgress,
    Started,
)
from dragoman.core.finish import FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.operations import Counted
from dragoman.core.responses import ResponseRecord
from dragoman.dialects.base import Frame, ReplyContext
from dragoman.dialects.openai_responses.body import (
    Standing,
    echo_of,
    error_of,
    incomplete_reason,
    response_object,
)
from dragoman.dialects.openai_responses.events import (
    DeltaShape,
    EventNumbers,
    item_done,
    opening,
    text_done,
)
from dragoman.dialects.openai_responses.names import InputReader, custom_input
from dragoman.dialects.openai_responses.output import ItemKind, OutputItem, logprob_objects, new_item
from dragoman.dialects.openai_responses.schema import CreateResponse
from dragoman.dialects.openai_responses.tools import ToolSetup

_KINDS: dict[PartKind, ItemKind] = {"text": "message", "refusal": "refusal", "reasoning": "reasoning"}


class ResponseReply(Struct, frozen=True, kw_only=True):
    """What the request asked of its reply. `summaries` shows thoughts as summaries, `encrypted` adds their signatures;
    `phases` says of each message whether it is commentary or the final answer, as Codex reads it."""

    id: str
    body: CreateResponse
    tools: ToolSetup
    summaries: bool = False
    logprobs: bool = False
    encrypted: bool = False
    phases: bool = False


class ResponsesWriter:
    """Writes one response. `open_item` is the item that grows; `held` a text that waits for its log probabilities."""

    def __init__(self, context: ReplyContext, reply: ResponseReply) -> None:
        self._context = context
        self._reply = reply
        self._numbers = EventNumbers()
        self._echo = echo_of(reply.body, reply.id, context)
        self._standing = Standing(output=[])
        self._items: list[OutputItem] = []
        self._item: OutputItem | None = None
        self._shape: DeltaShape | None = None
        self._custom: InputReader | None = None
        self._given = ""
        self._held: str | None = None
        self._begun = self._created = False
        self._undone: OutputItem | None = None

    def frames(self, event: Event) -> list[Frame]:
        """Events of the stream for one event."""
        if isinstance(event, PartDelta) and self._shape is not None and self._custom is None and self._held is None:
            return self._delta(event)
        return list(self._other(event))

    def end(self) -> list[Frame]:
        """The last event, with the whole response."""
        kind = "response.incomplete" if self._standing.status == "incomplete" else "response.completed"
        return [self._whole_event(kind)]

    def whole(self, answer: Answer) -> bytes:
        """The response object."""
        for event in _events_of(answer.choices[0], logprobs=self._reply.logprobs):
            self.frames(event)
        return self.record().body

    def queued(self) -> list[Frame]:
        """A background response waits for its turn."""
        self._created = True
        self._standing.status = "queued"
        return [self._whole_event("response.created"), self._whole_event("response.queued")]

    def stopped(self) -> list[Frame]:
        """A background response was cancelled. The wire has no event of its own for that; clients pass over this one
        and see the stream end."""
        self._close("cancelled")
        return [self._whole_event("response.cancelled")]

    def record(self) -> ResponseRecord:
        """The response as it stands."""
        return ResponseRecord(
            status=self._standing.status,
            created=self._context.created,
            body=msgspec.json.encode(self._object()),
            parts=tuple(_part_of(item) for item in self._items),
        )

    def _object(self) -> dict[str, Any]:
        self._standing.output = [item.wire() for item in self._items]
        return response_object(self._echo, self._standing)

    def _whole_event(self, kind: str) -> Frame:
        return self._numbers.frame(kind, response=self._object())

    def _other(self, event: Event) -> Iterator[Frame]:
        if isinstance(event, Failed):
            yield from self._failed(event)
            return
        yield from self._begin()
        if isinstance(event, Logprobs):
            yield from self._logprobs(event)
        elif self._held is not None:
            yield from self._release(())
        if isinstance(event, PartDelta):
            yield from self._delta(event)
        elif isinstance(event, PartStart):
            yield from self._start(event)
        elif isinstance(event, PartEnd):
            yield from self._end_part()
        elif isinstance(event, Finished):
            yield from self._finish(event)
        elif isinstance(event, PromptProgress):
            yield self._progress(event)

    def _begin(self) -> Iterator[Frame]:
        if self._begun:
            return
        self._begun = True
        self._standing.status = "in_progress"
        if not self._created:
            yield self._whole_event("response.created")
        yield self._whole_event("response.in_progress")

    def _start(self, event: PartStart) -> Iterator[Frame]:
        yield from self._done("commentary")
        item = self._new_item(event)
        self._items.append(item)
        self._item, self._shape = item, DeltaShape(item)
        self._custom = InputReader() if item.kind == "custom_tool_call" else None
        self._given = ""
        yield from opening(self._numbers, item)

    def _new_item(self, event: PartStart) -> OutputItem:
        place = len(self._items)
        if event.kind != "tool_call":
            item = new_item(_KINDS.get(event.kind, "message"), self._reply.id, place)
            item.summarised = item.kind == "reasoning" and self._reply.summaries
            item.logprobs = [] if item.kind == "message" and self._reply.logprobs else None
            return item
        tool = self._reply.tools.names.get(event.name)
        kind = "custom_tool_call" if tool is not None and tool.kind == "custom" else "function_call"
        item = new_item(kind, self._reply.id, place)
        item.call_id, item.flat, item.tool = event.id, event.name, tool
        return item

    def _delta(self, event: PartDelta) -> list[Frame]:
        item, shape = self._item, self._shape
        if not event.text or item is None or shape is None:
            return []
        item.pieces.append(event.text)
        if item.logprobs is not None:
            self._held = event.text
            return []
        if self._custom is None:
            return [self._numbers.cut(shape.kind, shape.head, event.text, shape.tail)]
        return self._custom_delta(self._custom.feed(event.text), shape)

    def _custom_delta(self, text: str, shape: DeltaShape) -> list[Frame]:
        self._given += text
        return [self._numbers.cut(shape.kind, shape.head, text, shape.tail)] if text else []

    def _logprobs(self, event: Logprobs) -> list[Frame]:
        """They ride on the text that waits for them, else on an empty one; those of a text that is over are told with
        its item."""
        if self._shape is None and self._undone is not None and self._undone.logprobs is not None:
            self._undone.logprobs += logprob_objects(event.entries)
        return self._release(event.entries)

    def _release(self, entries: tuple[LogprobEntry, ...]) -> list[Frame]:
        """The held text with its log probabilities."""
        text, self._held, item, shape = self._held or "", None, self._item, self._shape
        if item is None or shape is None or item.logprobs is None:
            return []
        found = logprob_objects(entries)
        item.logprobs += found
        return [self._numbers.cut(shape.kind, shape.head, text, b',"logprobs":' + msgspec.json.encode(found))]

    def _end_part(self) -> Iterator[Frame]:
        """The text is complete. Whether the answer goes on behind it, only the next event tells, and so the item's own
        end waits for that."""
        item, shape, self._shape = self._item, self._shape, None
        if item is None or shape is None:
            return
        if self._custom is not None:
            yield from self._rest_of_input(item, shape)
        item.status = "completed"
        yield from text_done(self._numbers, item)
        self._undone, self._item, self._custom = item, None, None

    def _rest_of_input(self, item: OutputItem, shape: DeltaShape) -> list[Frame]:
        """What the reader could not tell before the end: arguments of an unforeseen shape."""
        text = custom_input(item.text)
        return self._custom_delta(text.removeprefix(self._given) if text.startswith(self._given) else "", shape)

    def _done(self, phase: str) -> Iterator[Frame]:
        """The end of the item before, if any."""
        item, self._undone = self._undone, None
        if item is None:
            return
        if self._reply.phases and item.kind in ("message", "refusal"):
            item.phase = phase
        signer = self._context.signer
        if item.kind == "reasoning" and self._reply.encrypted and signer is not None and item.status == "completed":
            item.encrypted = signer.sign("reasoning", item.text)
        yield item_done(self._numbers, item)

    def _finish(self, event: Finished) -> Iterator[Frame]:
        yield from self._end_part()
        standing = self._standing
        standing.incomplete = incomplete_reason(event.finish)
        standing.usage = event.usage
        standing.completed_at = _now()
        standing.status = "incomplete" if standing.incomplete else "completed"
        if standing.incomplete and self._undone is not None:
            self._undone.status = "incomplete"
        yield from self._done("commentary" if event.finish.reason is FinishReason.TOOL_CALLS else "final_answer")

    def _failed(self, event: Failed) -> Iterator[Frame]:
        """`response.failed` comes after `response.created`, which clients insist on seeing first."""
        yield from self._begin()
        self._standing.error = error_of(event.error)
        self._close("failed")
        yield self._whole_event("response.failed")

    def _close(self, status: Any) -> None:
        self._standing.status = status
        self._standing.completed_at = _now()
        for item in self._items:
            if item.status == "in_progress":
                item.status = "incomplete"
        self._item = self._shape = self._custom = self._undone = self._held = None

    def _progress(self, event: PromptProgress) -> Frame:
        """How far the prompt is, in mlx2's place for it."""
        progress = {
            "total": event.total,
            "cached": event.cached,
            "processed": event.processed,
            "time_ms": round(event.ms),
        }
        return self._numbers.frame("response.in_progress", response=self._object(), prompt_progress=progress)


def counted(result: Counted) -> bytes:
    """The body of a count."""
    return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": result.prompt_tokens})


def _now() -> int:
    return int(time.time())


def _part_of(item: OutputItem) -> AnswerPart:
    kind: PartKind = "tool_call" if item.flat else "text" if item.kind == "message" else item.kind  # pyright: ignore[reportAssignmentType]
    return AnswerPart(kind, item.text, item.call_id, item.flat)


def _events_of(choice: Choice, *, logprobs: bool) -> Iterator[Event]:
    """The events a choice could have come from: each part in one piece."""
    index = choice.index
    entries = list(choice.logprobs) if logprobs else []
    yield Started(index, choice.usage.prompt_tokens, choice.usage.cached_tokens)
    for place, part in enumerate(choice.parts):
        yield PartStart(index, place, part.kind, part.id, part.name)
        if part.text:
            yield PartDelta(index, place, part.text)
        if part.kind in ("text", "reasoning") and part.text:
            yield Logprobs(index, tuple(_taken(entries, part.text)))
        yield PartEnd(index, place)
    yield Finished(index, choice.finish, choice.usage, choice.timings)


def _taken(entries: list[LogprobEntry], text: str) -> Iterator[LogprobEntry]:
    """The entries of this text, which leave the list."""
    size = len(text.encode())
    while entries and size > 0:
        entry = entries.pop(0)
        size -= len(entry.raw)
        yield entry
