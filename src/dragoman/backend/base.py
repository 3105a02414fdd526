"""The contract of seam 1. One backend serves one model; every method is called on the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.vectors import EmbedWork, RerankWork, Scores, Vector


class BackendStats(Struct, frozen=True, kw_only=True):
    """Counters since start, and gauges. `running` and `waiting` are gauges; `cancelled` counts requests that were
    dropped before they finished, at whatever stage; tokens count what the engine really processed, `cached_tokens`
    what it need not. `cache_bytes` and `cache_entries` are gauges of the prefix cache, its other fields counts."""

    running: int = 0
    waiting: int = 0
    lanes: int = 1
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    restarts: int = 0
    cache_bytes: int = 0
    cache_entries: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_evicted: int = 0


class TokenStream(Protocol):
    """Chunks of one request, in order; the last has `finish`. Raises a DragomanError when the engine fails.

    `aclose` (also by leaving early) cancels the request: its row is free within one step or prefill chunk.
    Calling it twice, or after the end, does nothing.
    """

    def __aiter__(self) -> AsyncIterator[TokenChunk]: ...

    async def __anext__(self) -> TokenChunk: ...

    async def aclose(self) -> None:
        """Cancel the request unless it has ended."""
        ...


class Backend(Protocol):
    """An engine behind the seam."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do. Known after `start`."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens one request may use, prompt and answer together. Known after `start`."""
        ...

    @property
    def build(self) -> str:
        """Engine and version, for cards and receipts."""
        ...

    async def start(self) -> None:
        """Load the model. Returns when requests can be answered; raises EngineFailure with a clear sentence."""
        ...

    async def stop(self) -> None:
        """End what is running with errors, free the engine, leave no process behind. Safe to call twice."""
        ...

    async def submit(self, request: EngineRequest) -> TokenStream:
        """Queue a request. Returns at once; raises Overloaded when the queue is full, Unavailable when the engine is
        down or restarting, InvalidRequest when it cannot do this."""
        ...

    async def embed(self, work: EmbedWork) -> tuple[tuple[Vector, ...], ...]:
        """For each input its vectors as computed, not normalised: one, or one per token with pooling `none`. Waits its
        turn; cancelling drops the work. Raises as `submit` does, and NotSupported when the capabilities say no."""
        ...

    async def rerank(self, work: RerankWork) -> Scores:
        """The relevance of each document. Waits and raises as `embed` does."""
        ...

    def health(self) -> Health:
        """Whether it can answer now."""
        ...

    def stats(self) -> BackendStats:
        """Counters and gauges, consistent at this moment."""
        ...
