"""Random answers as event streams, with the whole answer each of them stands for."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hypothesis import strategies as st
from msgspec import Struct

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.events import (
    Event,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartKind,
    PartStart,
    PromptProgress,
    Started,
    UsageUpdate,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.model import ModelCard
from dragoman.core.usage import Usage
from dragoman.dialects.base import ReplyContext, Writer

CARD = ModelCard(
    id="tiny/model",
    path="model.gguf",
    format="gguf",
    engine="llamacpp",
    engine_build="b1",
    created=1_700_000_000,
    context_length=4096,
)
CONTEXT = ReplyContext(card=CARD, created=1_800_000_000, request_id="req_abc123")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


class Script(Struct, frozen=True):
    """Events in the order of one delivery, and what they add up to."""

    events: tuple[Event, ...]
    answer: Answer


def entry(raw: bytes, logprob: float = -0.5, top: tuple[LogprobEntry, ...] = (), token: int = 7) -> LogprobEntry:
    return LogprobEntry(token, raw.decode("utf-8", "replace"), raw, f"<{token}>", logprob, top)


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """`text` cut anywhere, empty pieces included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def parts(draw: st.DrawFn, kinds: tuple[PartKind, ...], index: int) -> AnswerPart:
    kind = draw(st.sampled_from(kinds))
    if kind != "tool_call":
        return AnswerPart(kind, draw(texts))
    value = draw(st.dictionaries(texts, texts | st.integers() | st.booleans(), max_size=3))
    return AnswerPart(kind, json.dumps(value), f"call_{index}", draw(st.sampled_from(["look", "save"])))


@st.composite
def choices(draw: st.DrawFn, number: int, kinds: tuple[PartKind, ...], logprobs: bool) -> tuple[list[Event], Choice]:
    """The events of one choice and the choice itself."""
    count = draw(st.integers(0, 4))
    found = [draw(parts(kinds, index)) for index in range(count)]
    prompt = draw(st.integers(1, 50))
    cached = draw(st.integers(0, prompt))
    events: list[Event] = [Started(number, prompt, cached)]
    if draw(st.booleans()):
        events.append(PromptProgress(number, prompt, cached, prompt, 1.5))
    entries: list[LogprobEntry] = []
    tokens: list[int] = []
    reasoning = 0
    for index, part in enumerate(found):
        events.append(PartStart(number, index, part.kind, part.id, part.name))
        for piece in draw(pieces(part.text)):
            ids = tuple(draw(st.lists(st.integers(0, 99), max_size=2)))
            events.append(PartDelta(number, index, piece, ids))
            tokens += ids
            reasoning += len(ids) if part.kind == "reasoning" else 0
            if logprobs and piece and part.kind in ("text", "reasoning"):
                entries.append(entry(piece.encode(), top=(entry(b"other", -1.0, token=8),)))
                events.append(Logprobs(number, (entries[-1],)))
        events.append(PartEnd(number, index))
    events.append(PartDelta(number, -1, "", (2,)))
    tokens.append(2)
    usage = Usage(prompt, len(tokens), cached, reasoning)
    if draw(st.booleans()):
        events.append(UsageUpdate(number, usage))
    finish = draw(finishes(any(part.kind == "tool_call" for part in found)))
    events.append(Finished(number, finish, usage))
    choice = Choice(
        index=number, parts=tuple(found), finish=finish, usage=usage, tokens=tuple(tokens), logprobs=tuple(entries)
    )
    return events, choice


@st.composite
def finishes(draw: st.DrawFn, called: bool) -> Finish:
    if called:
        return Finish(FinishReason.TOOL_CALLS)
    reason = draw(st.sampled_from([one for one in FinishReason if one is not FinishReason.TOOL_CALLS]))
    return Finish(reason, "END" if reason is FinishReason.STOP else None)


@st.composite
def scripts(
    draw: st.DrawFn,
    *,
    n: int = 1,
    kinds: tuple[PartKind, ...] = ("text", "reasoning", "tool_call", "refusal"),
    logprobs: bool = False,
) -> Script:
    """An answer with `n` choices whose events are interleaved at random."""
    made = [draw(choices(number, kinds, logprobs)) for number in range(n)]
    order = draw(st.permutations([number for number in range(n) for _ in made[number][0]]))
    streams: list[Iterator[Event]] = [iter(events) for events, _ in made]
    return Script(tuple(next(streams[number]) for number in order), Answer(tuple(choice for _, choice in made)))


def written(writer: Writer, script: Script) -> list[tuple[str, bytes]]:
    """All frames of a script: event name and payload."""
    frames = [frame for event in script.events for frame in writer.frames(event)] + writer.end()
    return [(frame.event, frame.data) for frame in frames]
