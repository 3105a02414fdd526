"""The fold of an answer's events into the whole answer. Knows no wire; a stream and its whole agree because of it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import EngineFailure
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartKind,
    PartStart,
    PromptLogprobs,
    Started,
)
from dragoman.core.logprobs import LogprobEntry


class _OpenPart(Struct):
    kind: PartKind
    id: str
    name: str
    pieces: list[str] = field(default_factory=list[str])


class _OpenChoice(Struct):
    parts: list[_OpenPart] = field(default_factory=list[_OpenPart])
    tokens: list[int] = field(default_factory=list[int])
    logprobs: list[LogprobEntry] = field(default_factory=list[LogprobEntry])
    prompt_text: str = ""
    prompt_head: LogprobEntry | None = None
    prompt_logprobs: list[LogprobEntry] = field(default_factory=list[LogprobEntry])
    finished: Finished | None = None


class Assembler:
    """Adds events one by one; events of several choices may interleave."""

    def __init__(self) -> None:
        self._choices: dict[int, _OpenChoice] = {}

    def add(self, event: Event) -> None:
        """Take one event in. Raises the error of a Failed event."""
        if isinstance(event, Failed):
            raise event.error
        choice = self._choices.get(event.choice)
        if choice is None:
            choice = self._choices[event.choice] = _OpenChoice()
        match event:
            case PartDelta():
                choice.tokens += event.tokens
                if event.text:
                    choice.parts[event.index].pieces.append(event.text)
            case PartStart():
                choice.parts.append(_OpenPart(event.kind, event.id, event.name))
            case Logprobs():
                choice.logprobs += event.entries
            case Finished():
                choice.finished = event
            case PromptLogprobs():
                choice.prompt_head = choice.prompt_head or event.head
                choice.prompt_logprobs += event.entries
            case Started():
                choice.prompt_text = event.prompt_text
            case _:
                pass

    def answer(self) -> Answer:
        """All choices, ordered by index. Raises EngineFailure when one has not finished."""
        return Answer(tuple(_close(index, self._choices[index]) for index in sorted(self._choices)))


def assemble(events: Iterable[Event]) -> Answer:
    """The answer these events amount to. Raises the error of a Failed event, EngineFailure when the end is missing."""
    assembler = Assembler()
    for event in events:
        assembler.add(event)
    return assembler.answer()


def _close(index: int, choice: _OpenChoice) -> Choice:
    finished = choice.finished
    if finished is None:
        raise EngineFailure("The answer broke off before it was complete.")
    return Choice(
        index=index,
        parts=tuple(AnswerPart(part.kind, "".join(part.pieces), part.id, part.name) for part in choice.parts),
        finish=finished.finish,
        usage=finished.usage,
        tokens=tuple(choice.tokens),
        logprobs=tuple(choice.logprobs),
        timings=finished.timings,
        slot=finished.slot,
        held=finished.held,
        kept=finished.kept,
        prompt_text=choice.prompt_text,
        prompt_head=choice.prompt_head,
        prompt_logprobs=tuple(choice.prompt_logprobs),
    )
