"""Log probabilities in the shape of Chat Completions, with the token id and its vocabulary piece added."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.core.logprobs import LogprobEntry


class TopLogprob(msgspec.Struct, frozen=True):
    """A rival of an emitted token. `bytes` are its UTF-8 bytes as integers."""

    token: str
    bytes: list[int]
    logprob: float
    id: int
    piece: str


class TokenLogprob(msgspec.Struct, frozen=True):
    """An emitted token and its rivals, best first."""

    token: str
    bytes: list[int]
    logprob: float
    top_logprobs: list[TopLogprob]
    id: int
    piece: str


class LogprobBlock(msgspec.Struct, frozen=True):
    """`choices[].logprobs`."""

    content: list[TokenLogprob]
    refusal: None = None


def logprob_block(entries: Iterable[LogprobEntry]) -> LogprobBlock:
    """The block for some tokens in order."""
    return LogprobBlock([_token(entry) for entry in entries])


def _token(entry: LogprobEntry) -> TokenLogprob:
    rivals = [TopLogprob(top.text, list(top.raw), top.logprob, top.id, top.piece) for top in entry.top]
    return TokenLogprob(entry.text, list(entry.raw), entry.logprob, rivals, entry.id, entry.piece)
