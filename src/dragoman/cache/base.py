"""The contract of the prefix cache. Used on the engine thread only; knows no engine and no array."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from dragoman.core.snapshot import Snapshot

EntryKind = Literal["boundary", "prompt", "answer"]


class Hit(Struct, frozen=True):
    """A usable prefix: begin the row with the first `length` tokens out of `snapshot`."""

    length: int
    snapshot: Snapshot


class CacheStats(Struct, frozen=True, kw_only=True):
    """Counters since start; `bytes` and `entries` are gauges, `budget` is in bytes. `reused_tokens` were not computed
    again thanks to hits."""

    entries: int = 0
    bytes: int = 0
    budget: int = 0
    hits: int = 0
    misses: int = 0
    reused_tokens: int = 0
    stored: int = 0
    evicted: int = 0
    refused: int = 0


class PrefixCache(Protocol):
    """Snapshots by the tokens they stand for."""

    def take(self, namespace: str, tokens: tuple[int, ...], session: str | None = None) -> Hit | None:
        """The longest usable prefix of `tokens`, at most all but the last; None when there is none. An entry that
        goes on beyond the shared prefix counts only if it can be trimmed."""
        ...

    def put(
        self,
        namespace: str,
        tokens: tuple[int, ...],
        snapshot: Snapshot,
        kind: EntryKind = "prompt",
        session: str | None = None,
    ) -> None:
        """Keep `snapshot` for `tokens` (its first `snapshot.length` ones). Whatever it takes, `stats().bytes` never
        exceeds the budget, before or after; what does not fit is not kept."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def stats(self) -> CacheStats:
        """Counters and gauges now."""
        ...
