"""Who may prefill how much in one step. Pure arithmetic; knows no engine."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.scheduler.sequence import Sequence

_SLACK = 4
"""Part of a chunk that is not worth a pass over the weights of its own."""


def shares_of(chunk: int, prefilling: Iterable[Sequence]) -> list[tuple[Sequence, int]]:
    """The tokens each row may prefill, in the order given, without those that get none.

    Together they are `chunk` tokens, or up to a quarter more where rows can finish with that. A row that cannot is
    given what is left of the chunk only if that is more than a quarter, and nothing goes to rows behind it.
    """
    slack, left = chunk // _SLACK, chunk
    shares = list[tuple[Sequence, int]]()
    for sequence in prefilling:
        rest = sequence.unprefilled
        if rest > left + slack:
            if left > slack:
                shares.append((sequence, left))
            break
        if rest:
            shares.append((sequence, rest))
            left -= rest
    return shares
