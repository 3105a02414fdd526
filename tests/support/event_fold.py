"""Canonical events folded into a whole answer, independently of the output station, for writer tests."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.events import Event, Finished, Logprobs, PartDelta, PartStart, Started
from dragoman.core.logprobs import LogprobEntry


def fold_events(events: Iterable[Event]) -> Answer:
    """The answer these events tell; every choice must have finished."""
    by_choice: dict[int, list[Event]] = {}
    for event in events:
        by_choice.setdefault(event.choice, []).append(event)
    return Answer(tuple(_choice(by_choice[index]) for index in sorted(by_choice)))


def _choice(events: list[Event]) -> Choice:
    starts: list[PartStart] = []
    texts: dict[int, str] = {}
    tokens: list[int] = []
    logprobs: list[LogprobEntry] = []
    prompt_text = ""
    for event in events:
        if isinstance(event, PartStart):
            starts.append(event)
            texts[event.index] = ""
        elif isinstance(event, PartDelta):
            tokens.extend(event.tokens)
            if event.index >= 0:
                texts[event.index] += event.text
        elif isinstance(event, Logprobs):
            logprobs.extend(event.entries)
        elif isinstance(event, Started):
            prompt_text = event.prompt_text
    finished = events[-1]
    assert isinstance(finished, Finished)
    return Choice(
        index=finished.choice,
        parts=tuple(AnswerPart(start.kind, texts[start.index], start.id, start.name) for start in starts),
        finish=finished.finish,
        usage=finished.usage,
        tokens=tuple(tokens),
        logprobs=tuple(logprobs),
        timings=finished.timings,
        slot=finished.slot,
        prompt_text=prompt_text,
    )
