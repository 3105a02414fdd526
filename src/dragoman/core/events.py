"""Canonical events: what the output station says about an answer, in order. Every dialect is written from these.

Order for one choice: Started, PromptProgress*, PromptLogprobs*, then parts (PartStart, PartDelta*, PartEnd, never
interleaved), with Logprobs directly after the delta they belong to, then Finished; or Failed at any point, which ends
the answer.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.errors import DragomanError
from dragoman.core.finish import Finish
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.core.usage import Timings, Usage

PartKind = Literal["text", "reasoning", "tool_call", "refusal", "audio"]


class Started(Struct, frozen=True):
    """The prompt was accepted and prefill begins. `prompt_tokens` is the real count, `cached_tokens` known by then;
    `prompt_text` is the prompt with special tokens spelled out; `miss` why no more of it was cached, if known."""

    choice: int
    prompt_tokens: int
    cached_tokens: int = 0
    prompt_text: str = ""
    miss: PrefixMiss | None = None


class PromptProgress(Struct, frozen=True):
    """Prefill progress in tokens (`processed` includes `cached`), `ms` since it began. Only when asked for."""

    choice: int
    total: int
    cached: int
    processed: int
    ms: float


class PartStart(Struct, frozen=True):
    """A part opens. `index` counts parts of this choice from 0; `id` and `name` are set for tool calls only."""

    choice: int
    index: int
    kind: PartKind
    id: str = ""
    name: str = ""


class PartDelta(Struct, frozen=True):
    """Text (or argument JSON text) added to the open part.

    `tokens` are the sampled ids this delta accounts for. Every sampled token appears in exactly one delta, so a
    delta may have tokens and no text (held back, end token, markup) or text without tokens (released later).
    `index` is -1 when no part is open yet or any more; such a delta has no text.
    """

    choice: int
    index: int
    text: str
    tokens: tuple[int, ...] = ()


class PartEnd(Struct, frozen=True):
    """The part is over. The text of a tool call is by now valid JSON, or, where a limit cut the answer, the beginning
    of it."""

    choice: int
    index: int


class Logprobs(Struct, frozen=True):
    """Entries for tokens whose text has been delivered, in order."""

    choice: int
    entries: tuple[LogprobEntry, ...]


class PromptLogprobs(Struct, frozen=True):
    """Log probabilities of the prompt, for scoring clients, before the first part. `head` is the first prompt token,
    which nothing predicts, on the first of these events; `entries` are the tokens after it, in order."""

    choice: int
    entries: tuple[LogprobEntry, ...]
    head: LogprobEntry | None = None


class UsageUpdate(Struct, frozen=True):
    """Running counts, for dialects that report them while streaming."""

    choice: int
    usage: Usage


class Finished(Struct, frozen=True):
    """The choice is complete. `slot` is the engine's slot or row number; `repairs` names what had to be mended in
    tool calls, in order (`raw`: markup that could not be read and was given out as text). `kept` is how many characters
    of the text belong to the answer, where a rule took back some that had gone out; None: all. `held` is what the slot
    holds afterwards, in tokens, where the window was shifted."""

    choice: int
    finish: Finish
    usage: Usage
    timings: Timings = Timings()
    slot: int = 0
    repairs: tuple[str, ...] = ()
    kept: int | None = None
    held: int | None = None


class Failed(Struct, frozen=True):
    """The answer broke off; nothing follows for this choice."""

    choice: int
    error: DragomanError


Event = (
    Started
    | PromptProgress
    | PromptLogprobs
    | PartStart
    | PartDelta
    | PartEnd
    | Logprobs
    | UsageUpdate
    | Finished
    | Failed
)
