"""The OpenAI usage object and how counts of several choices add up. Knows no endpoint."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.core.answer import Answer
from dragoman.core.events import Finished, PartDelta, Started, UsageUpdate
from dragoman.core.usage import Usage


class PromptDetails(msgspec.Struct, frozen=True):
    """Part of `prompt_tokens`."""

    cached_tokens: int


class CompletionDetails(msgspec.Struct, frozen=True):
    """Part of `completion_tokens`."""

    reasoning_tokens: int


class UsageObject(msgspec.Struct, frozen=True):
    """Token counts as OpenAI clients read them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


def usage_object(usage: Usage) -> UsageObject:
    """`usage` in wire form."""
    return UsageObject(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        PromptDetails(usage.cached_tokens),
        CompletionDetails(usage.reasoning_tokens),
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


class RunningUsage:
    """Follows the counts of a stream event by event. One per reply."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._by_choice: dict[int, Usage] = {}

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

    @property
    def total(self) -> Usage:
        """All choices so far."""
        return total_usage(self._by_choice, self._n)
