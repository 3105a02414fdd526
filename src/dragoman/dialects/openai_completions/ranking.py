"""`best_of`: the likeliest answers of each prompt, by the mean log probability of their tokens. Knows no wire shape."""

from __future__ import annotations

import msgspec

from dragoman.core.answer import Answer, Choice


def best(answer: Answer, of: int, n: int) -> list[Choice]:
    """The `n` likeliest of every `of` choices, likeliest first, numbered anew: prompt r has choices r*n … r*n+n-1."""
    if of == n:
        return list(answer.choices)
    kept: list[Choice] = []
    for first in range(0, len(answer.choices), of):
        ranked = sorted(answer.choices[first : first + of], key=_mean, reverse=True)
        kept += [
            msgspec.structs.replace(choice, index=first // of * n + place) for place, choice in enumerate(ranked[:n])
        ]
    return kept


def _mean(choice: Choice) -> float:
    """Nats per token; an answer without tokens says nothing and comes last."""
    entries = choice.logprobs
    return sum(entry.logprob for entry in entries) / len(entries) if entries else float("-inf")
