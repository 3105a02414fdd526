"""One window that all slots share: how much of it each request takes. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.core.exchange import EngineRequest

_MORE = 2048
"""Tokens an answer should have room for; at most half a lane's share of the window."""


class Claim(Struct):
    """What a request takes: the tokens of its prompt, those it has `made`, and those that may still come, `most` in
    all."""

    prompt: int = 0
    most: int = 0
    made: int = 0


class Pool(Struct, frozen=True):
    """A window of so many `tokens`. Each answer is to have room for `more` than it has: llama.cpp fails all of them
    when the window is full."""

    tokens: int
    more: int

    def left(self, claims: Iterable[Claim]) -> int:
        """Tokens these requests leave; less than 0 when they have too little room."""
        return self.tokens - sum(one.prompt + min(one.most, one.made + self.more) for one in claims)


def claim_of(request: EngineRequest) -> Claim:
    """What a request takes before it has begun."""
    return Claim(len(request.prompt), request.max_tokens)


def pool_of(options: LlamaCppOptions) -> Pool | None:
    """The window an engine of ours is given for all slots; None where each has its own, or nobody knows."""
    if not options.kv_unified or not options.context or options.remote:
        return None
    return Pool(options.context * options.lanes, min(_MORE, options.context // 2))
