"""The OpenAI usage object and how counts of several choices add up. Knows no endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dragoman.core.answer import Answer
from dragoman.core.events import Finished, PartDelta, Started, UsageUpdate
from dragoman.core.usage import Timings, Usage


class PromptDetails(msgspec.Struct, frozen=True):
    """Part of `prompt_tokens`."""

    cached_tokens: int


class CompletionDetails(msgspec.Struct, frozen=True):
    """Part of `completion_tokens`."""

    reasoning_tokens: int


class Speculation(msgspec.Struct, frozen=True):
    """Tokens that speculation proposed, and how many of them became part of an answer."""

    drafted: int
    accepted: int


class UsageObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts as OpenAI clients read them. `lane` and `speculation` are mlx-bun's: how the engine ran the (first)
    answer, and what speculation came to where there was any."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails
    lane: str | None = None
    speculation: Speculation | None = None


def usage_object(usage: Usage, timings: Iterable[Timings] = ()) -> UsageObject:
    """`usage` in wire form; `timings` are those of the choices that are over."""
    known = list(timings)
    drafted = sum(times.drafted for times in known)
    return UsageObject(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        PromptDetails(usage.cached_tokens),
        CompletionDetails(usage.reasoning_tokens),
        (known[0].lane or None) if known else None,
        Speculation(drafted, sum(times.accepted for times in known)) if drafted else None,
    )


def total_usage(by_choice: Mapping[int, Usage], n: int) -> Usage:
    """The counts of a whole reply. Choices r*n … r*n+n-1 share one prompt, which is counted once."""
    total = Usage()
    prompts: set[int] = set()
    for choice in sorted(by_choice):
        usage = by_choice[choice]
        if choice // n in prompts:
            usage = Usage(0, usage.completion_tokens, 0, usage.reasoning_tokens)
        prompts.add(choice // n)
        total = total + usage
    return total


def answer_usage(answer: Answer, n: int) -> Usage:
    """The counts of a whole answer."""
    return total_usage({choice.index: choice.usage for choice in answer.choices}, n)


def answer_usage_object(answer: Answer, n: int) -> UsageObject:
    """The counts of a whole answer in wire form."""
    return usage_object(answer_usage(answer, n), (choice.timings for choice in answer.choices))


class RunningUsage:
    """Follows the counts of a stream event by event. One per reply."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._by_choice: dict[int, Usage] = {}
        self._timings: dict[int, Timings] = {}

    def started(self, event: Started) -> None:
        """The prompt of a choice is known."""
        self._by_choice[event.choice] = Usage(event.prompt_tokens, 0, event.cached_tokens, 0)

    def delta(self, event: PartDelta, *, reasoning: bool) -> None:
        """Tokens arrived."""
        count = len(event.tokens)
        if count:
            known = self._by_choice.get(event.choice, Usage())
            self._by_choice[event.choice] = known + Usage(0, count, 0, count if reasoning else 0)

    def reported(self, event: UsageUpdate | Finished) -> None:
        """Exact counts of one choice replace what was added up so far."""
        self._by_choice[event.choice] = event.usage
        if isinstance(event, Finished):
            self._timings[event.choice] = event.timings

    @property
    def total(self) -> Usage:
        """All choices so far."""
        return total_usage(self._by_choice, self._n)

    @property
    def object(self) -> UsageObject:
        """All choices so far, in wire form."""
        return usage_object(self.total, (self._timings[choice] for choice in sorted(self._timings)))
