"""A whole answer: the fold of its events. Made by the output station, written by a dialect."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.events import PartKind
from dragoman.core.finish import Finish
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.usage import Timings, Usage


class AnswerPart(Struct, frozen=True):
    """A complete part; `text` is argument JSON text for a tool call. `id` and `name` belong to tool calls."""

    kind: PartKind
    text: str
    id: str = ""
    name: str = ""


class Choice(Struct, frozen=True, kw_only=True):
    """One answer of the request. `tokens` are all sampled ids; `prompt_text` is that of `Started`, `kept` and
    `held` are those of `Finished`."""

    index: int
    parts: tuple[AnswerPart, ...]
    finish: Finish
    usage: Usage
    tokens: tuple[int, ...] = ()
    logprobs: tuple[LogprobEntry, ...] = ()
    prompt_head: LogprobEntry | None = None
    prompt_logprobs: tuple[LogprobEntry, ...] = ()
    timings: Timings = Timings()
    slot: int = 0
    kept: int | None = None
    held: int | None = None
    prompt_text: str = ""

    def text_of(self, kind: PartKind) -> str:
        """All parts of one kind joined."""
        return "".join(part.text for part in self.parts if part.kind == kind)

    @property
    def tool_calls(self) -> tuple[AnswerPart, ...]:
        """The tool calls in order."""
        return tuple(part for part in self.parts if part.kind == "tool_call")


class Answer(Struct, frozen=True):
    """All choices, ordered by index."""

    choices: tuple[Choice, ...]
