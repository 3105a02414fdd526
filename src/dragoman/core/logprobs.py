"""Log probabilities of emitted tokens and their rivals. Natural logarithm, float32, before temperature and filters."""

from __future__ import annotations

from msgspec import Struct


class TokenLogprob(Struct, frozen=True):
    """One candidate token. `logprob` is finite: minus infinity is reported as -9999."""

    id: int
    logprob: float


class TokenLogprobs(Struct, frozen=True):
    """The token that was emitted and the most likely candidates, best first."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


class LogprobEntry(Struct, frozen=True):
    """A candidate as clients see it. `text` is the token decoded alone ('' for an end token), `raw` its bytes,
    `piece` its spelling in the vocabulary; `top` holds the rivals (without `top` of their own)."""

    id: int
    text: str
    raw: bytes
    piece: str
    logprob: float
    top: tuple[LogprobEntry, ...] = ()
