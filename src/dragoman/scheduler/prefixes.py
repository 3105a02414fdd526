"""What is begun with and what is kept: a scheduler's dealings with the prefix cache and with snapshots.

Nothing that goes wrong here fails a request: it is logged, and the prompt is computed. Knows no queue and no step.
"""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

from dragoman.cache.base import CacheStats, EntryKind, Hit, PrefixCache
from dragoman.cache.miss import Miss
from dragoman.core.exchange import EngineRequest
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import Engine
from dragoman.scheduler.sequence import Sequence

log = logging.getLogger(__name__)

BLOCK = 32
"""Tokens; a shorter prefix is not worth a snapshot or a wait."""
_NO_MISSES = frozenset({"off", "short", "ended"})
"""Reasons that are none: the conversation has merely gone on, or nothing could have been kept."""
_SHORTEST_SPLIT = 64
"""Tokens; a shorter prompt is not prefilled in two parts for the sake of its boundary."""


@runtime_checkable
class EvictingCache(Protocol):
    """A cache that can be told to make room for rows."""

    def evict(self, bytes_needed: int) -> object:
        """Free at least that many bytes, or everything."""
        ...


@runtime_checkable
class ExplainingCache(Protocol):
    """A cache that can say why it had nothing."""

    def why_missed(self, namespace: str, tokens: tuple[int, ...]) -> Miss | None:
        """The reason; None when nothing was missed."""
        ...


class Prefixes:
    """The cache, if there is one, and the engine's snapshots, if it makes any. Used on the engine thread only."""

    def __init__(self, engine: Engine, cache: PrefixCache | None) -> None:
        self._engine = engine
        self._cache = cache
        self._evicting = cache if isinstance(cache, EvictingCache) else None
        self._explaining = cache if isinstance(cache, ExplainingCache) else None
        self._saw_trimmable = False
        self._saw_untrimmable = False
        self.can_capture = True

    @property
    def has_cache(self) -> bool:
        """Whether anything is kept at all."""
        return self._cache is not None

    @property
    def stats(self) -> CacheStats:
        """The cache's counts; zeros without one."""
        return CacheStats() if self._cache is None else self._cache.stats()

    def take(self, request: EngineRequest) -> Hit | None:
        """The longest cached prefix of its prompt; why it is no longer goes to the debug log."""
        if self._cache is None:
            return None
        try:
            hit = self._cache.take(request.namespace, request.prompt, request.cache.session)
            if self._explaining is not None and log.isEnabledFor(logging.DEBUG):
                reason = self._explaining.why_missed(request.namespace, request.prompt)
                log.debug("request %s: %s", request.id, reason or "all of its prompt is cached")
        except Exception:
            log.exception("looking up the prefix of request %s failed", request.id)
            return None
        return hit

    def miss_of(self, sequence: Sequence, hit: Hit | None) -> PrefixMiss | None:
        """Why a request that is about to begin with `hit` finds no more in the cache; None where that is as it should
        be, or hardly anything is left to compute."""
        begins = hit.length if hit else 0
        if self._explaining is None or not sequence.may_reuse or sequence.prompt_tokens - begins <= BLOCK:
            return None
        try:
            miss = self._explaining.why_missed(sequence.request.namespace, sequence.request.prompt)
        except Exception:
            log.exception("explaining the missed prefix of request %s failed", sequence.id)
            return None
        # A prefix shared with a running row is not the cache's, which then has nothing to explain.
        if miss is None or miss.usable != begins or miss.reason in _NO_MISSES:
            return None
        return PrefixMiss(reason=miss.reason, shared=miss.shared, length=miss.length, kept=miss.kept, asked=miss.asked)

    def capture(self, sequence: Sequence) -> Snapshot | None:
        """The state of a running row; None where that fails or cannot be had."""
        if not self.can_capture:
            return None
        try:
            snapshot = self._engine.snapshot(sequence.row)
            if snapshot is None:
                self.can_capture = False
                log.info("this model's state cannot be kept, so no prefix is used twice")
                return None
            known = sequence.prompt_tokens + sequence.sampled
            if not 0 < snapshot.length <= known:
                raise RuntimeError(f"a snapshot of {snapshot.length} tokens of a row of {known}")
        except Exception:
            log.exception("the state of request %s could not be kept", sequence.id)
            return None
        self._saw_trimmable |= snapshot.trimmable
        self._saw_untrimmable |= not snapshot.trimmable
        return snapshot

    def keep(self, sequence: Sequence, snapshot: Snapshot, kind: EntryKind, room: int | None) -> None:
        """Put a snapshot of the sequence into the cache; `room` bytes is all the cache may take now, None: no limit
        but its own."""
        if self._cache is None or (room is not None and snapshot.nbytes > room):
            return
        try:
            if room is not None:
                self.shrink(room - snapshot.nbytes)
                if self._cache.stats().bytes + snapshot.nbytes > room:
                    return
            request = sequence.request
            self._cache.put(
                request.namespace, sequence.tokens[: snapshot.length], snapshot, kind, request.cache.session
            )
        except Exception:
            log.exception("the prefix of request %s could not be cached", sequence.id)

    def find(self, namespace: str, tokens: tuple[int, ...]) -> Hit | None:
        """What is kept of the beginning of `tokens`, all of them included."""
        return None if self._cache is None or not tokens else self._cache.take(namespace, (*tokens, tokens[-1]))

    def hold(self, namespace: str, tokens: tuple[int, ...], snapshot: Snapshot) -> bool:
        """Keep the state after `tokens`; whether there was room."""
        if self._cache is None:
            return False
        self._cache.put(namespace, tokens, snapshot, "answer")
        found = self.find(namespace, tokens)
        return found is not None and found.length == len(tokens)

    def shrink(self, room: int | None) -> None:
        """Evict until the cache takes at most `room` bytes; what cannot evict is left alone."""
        if room is None or self._evicting is None:
            return
        excess = self.stats.bytes - room
        if excess <= 0:
            return
        try:
            self._evicting.evict(excess)
        except Exception:
            log.exception("%d bytes of cached prefixes could not be freed", excess)

    def clear(self) -> None:
        """Forget everything."""
        if self._cache is not None:
            self._cache.clear()

    def boundary_of(self, sequence: Sequence) -> int | None:
        """The prompt length at which its state is worth keeping for the next turn, if prefill will pass it."""
        boundary = sequence.request.stable_boundary
        if self._cache is None or boundary is None or sequence.prompt_tokens < _SHORTEST_SPLIT:
            return None
        boundary = min(boundary, sequence.prompt_tokens - 1)
        return boundary if boundary > max(sequence.cached, BLOCK - 1) else None

    def kind_here(self, sequence: Sequence) -> EntryKind | None:
        """What an entry of the sequence's state would be after the tokens prefilled so far; None: not worth one."""
        if self._cache is None:
            return None
        if sequence.prefilled == sequence.boundary:
            return "boundary"
        return "prompt" if sequence.is_prefilled and self._is_end_worth_keeping(sequence) else None

    def _is_end_worth_keeping(self, sequence: Sequence) -> bool:
        """The answer's entry serves the prompt too where it can be trimmed. Sliding caches can until they wrap, so
        one that could not is remembered for good."""
        covered = max(sequence.cached, sequence.boundary or 0)
        return sequence.prefilled - covered >= BLOCK and (self._saw_untrimmable or not self._saw_trimmable)
