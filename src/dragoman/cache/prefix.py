"""The prefix cache in memory: what is kept, what is found, what goes. Touches nothing inside a snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.cache.base import CacheStats, EntryKind, Hit
from dragoman.cache.entry import Entry
from dragoman.cache.ghosts import Fate, Ghosts
from dragoman.cache.holdings import Holdings
from dragoman.cache.integrity import require
from dragoman.cache.miss import Miss, miss_by_ghost, miss_by_nearest
from dragoman.cache.packed import pack, shared
from dragoman.cache.policy import most_durable
from dragoman.cache.trie import BlockHash, Match
from dragoman.core.snapshot import Snapshot

log = logging.getLogger(__name__)

_GHOSTS = 64


class _Counters(Struct):
    """Since start; see CacheStats."""

    hits: int = 0
    misses: int = 0
    reused_tokens: int = 0
    stored: int = 0
    evicted: int = 0
    refused: int = 0


class RamPrefixCache:
    """A PrefixCache that keeps at most `budget` bytes; 0 turns it off.

    `block` tokens are looked up at once (a matter of speed only: lengths are exact). At most `max_entries` entries are
    kept, whatever their bytes, and at most `max_sessions` sessions remembered. `spill` is given what is evicted, and
    what is too large to be kept, after it has left; it must not call back. Snapshots that share memory are counted
    as if they did not, so the true use is never above the count.
    """

    def __init__(
        self,
        budget: int,
        *,
        block: int = 32,
        max_entries: int = 4096,
        max_sessions: int = 32,
        digest: BlockHash = hash,
        spill: Callable[[Entry], None] | None = None,
    ) -> None:
        _require_budget(budget)
        if min(block, max_entries, max_sessions) < 1:
            raise ValueError("block, max_entries and max_sessions must be at least 1")
        self._budget = budget
        self._max_entries = max_entries
        self._spill = spill
        self._serial = 0
        self._holdings = Holdings(block, digest, max_sessions)
        self._ghosts = Ghosts(_GHOSTS)
        self._counters = _Counters()

    def take(self, namespace: str, tokens: tuple[int, ...], session: str | None = None) -> Hit | None:
        """See PrefixCache. What a session used last is tried first; that decides at most between entries that serve
        equally many tokens."""
        if not self._budget:
            return None
        match = self._find(namespace, tokens, session)
        if match is None:
            self._counters.misses += 1
            return None
        self._holdings.use(match.entry)
        if session is not None:
            self._holdings.sessions.hold((namespace, session), match.entry)
        self._counters.hits += 1
        self._counters.reused_tokens += match.length
        return Hit(match.length, match.entry.snapshot)

    def peek(self, namespace: str, tokens: tuple[int, ...]) -> int:
        """How many tokens `take` would serve now. Counts nothing and changes no recency."""
        match = self._find(namespace, tokens, None) if self._budget else None
        return match.length if match is not None else 0

    def put(
        self,
        namespace: str,
        tokens: tuple[int, ...],
        snapshot: Snapshot,
        kind: EntryKind = "prompt",
        session: str | None = None,
    ) -> None:
        """See PrefixCache. It replaces an entry of the same tokens and, if it can be trimmed, those of fewer tokens
        that it can stand for. Raises ValueError for a snapshot of more tokens than given, or of negative size."""
        if not self._budget:
            return
        entry = self._entry(namespace, tokens, snapshot, kind)
        if entry is None:
            self._counters.refused += 1
        elif entry.nbytes > self._budget:
            self._counters.refused += 1
            self._hand_down(entry, "refused")
        else:
            self._keep(entry, session)

    def clear(self) -> None:
        """See PrefixCache. Counters stay."""
        for entry in list(self._holdings):
            self._holdings.remove(entry)
        self._ghosts.clear()

    def resize(self, budget: int) -> None:
        """Set the budget in bytes; what no longer fits is evicted first. Raises ValueError when it is negative."""
        _require_budget(budget)
        self._shrink(budget, self._max_entries if budget else 0)
        self._budget = budget

    def evict(self, bytes_needed: int) -> int:
        """Free at least that many bytes, or all there are; gives the bytes freed."""
        before = self._holdings.bytes
        self._shrink(before - max(bytes_needed, 0), self._max_entries)
        return before - self._holdings.bytes

    def stats(self) -> CacheStats:
        """See PrefixCache."""
        counters = self._counters
        return CacheStats(
            entries=len(self._holdings),
            bytes=self._holdings.bytes,
            budget=self._budget,
            hits=counters.hits,
            misses=counters.misses,
            reused_tokens=counters.reused_tokens,
            stored=counters.stored,
            evicted=counters.evicted,
            refused=counters.refused,
        )

    def why_missed(self, namespace: str, tokens: tuple[int, ...]) -> Miss | None:
        """Why no more of `tokens` can be reused; None when all but the last can. For logs: it counts nothing, changes
        no recency, and costs more than a `take`."""
        stop = len(tokens) - 1
        if not self._budget or stop < 1:
            return Miss(reason="short" if self._budget else "off")
        key = pack(tokens) or b""
        trie = self._holdings.trie(namespace)
        match = trie.longest(key, stop) if trie else None
        usable = match.length if match else 0
        if usable == stop:
            return None
        ghost = self._ghosts.longest(namespace, key, stop)
        if ghost is not None and ghost.length > usable:
            return miss_by_ghost(ghost, usable)
        nearest = trie.nearest(key, stop) if trie else None
        return miss_by_nearest(nearest, usable, key, stop) if nearest else Miss(reason="empty")

    def check(self) -> None:
        """Raise CacheCorrupt when the parts contradict each other. Takes time; call it when idle."""
        require(self._holdings.bytes <= self._budget, "the budget is exceeded")
        require(len(self._holdings) <= self._max_entries, "there are too many entries")
        self._holdings.check()

    def _find(self, namespace: str, tokens: tuple[int, ...], session: str | None) -> Match | None:
        trie, stop = self._holdings.trie(namespace), len(tokens) - 1
        key = pack(tokens) if trie and stop > 0 else None
        if trie is None or key is None:
            return None
        if session is not None:
            for entry in self._holdings.sessions.held((namespace, session)):
                if _covers(entry, key, stop):
                    return Match(entry, stop)
        return trie.longest(key, stop)

    def _entry(self, namespace: str, tokens: tuple[int, ...], snapshot: Snapshot, kind: EntryKind) -> Entry | None:
        """None for what can serve nobody: no tokens, or tokens that no model has."""
        length, nbytes = snapshot.length, snapshot.nbytes
        if length > len(tokens):
            raise ValueError(f"a snapshot of {length} tokens was given {len(tokens)} tokens")
        if nbytes < 0:
            raise ValueError("a snapshot cannot have a negative size")
        key = pack(tokens[:length]) if length > 0 else None
        if key is None:
            return None
        self._serial += 1
        return Entry(
            namespace=namespace,
            key=key,
            snapshot=snapshot,
            kind=kind,
            length=length,
            nbytes=nbytes,
            trimmable=snapshot.trimmable,
            serial=self._serial,
        )

    def _keep(self, entry: Entry, session: str | None) -> None:
        """Room is made before the entry counts, and first by what it replaces."""
        entry = self._replacing(entry)
        if session is not None:
            self._holdings.sessions.hold((entry.namespace, session), entry)
        self._shrink(self._budget - entry.nbytes, self._max_entries - 1)
        self._holdings.add(entry)
        self._counters.stored += 1

    def _replacing(self, entry: Entry) -> Entry:
        """Drop what `entry` can stand for; gives it with the most durable kind among these, as it now serves as all."""
        trie = self._holdings.trie(entry.namespace)
        kin = trie.prefixes(entry.key) if trie else []
        replaced = [old for old in kin if entry.trimmable or old.length == entry.length]
        heir = replace(entry, kind=most_durable([entry.kind, *(old.kind for old in replaced)]))
        for old in replaced:
            self._holdings.sessions.hand_on(old, heir)
            self._holdings.remove(old)
        return heir

    def _shrink(self, nbytes: int, entries: int) -> None:
        """Evict until no more than that is kept."""
        while self._holdings.bytes > nbytes or len(self._holdings) > entries:
            victim = self._holdings.victim()
            if victim is None:
                return
            self._holdings.remove(victim)
            self._counters.evicted += 1
            self._hand_down(victim, "evicted")

    def _hand_down(self, entry: Entry, fate: Fate) -> None:
        self._ghosts.add(entry.namespace, entry.key, fate)
        if self._spill is None:
            return
        try:
            self._spill(entry)
        except Exception:
            # A lower tier that fails costs time later; the row being served must not pay for it.
            log.exception("an entry of %d tokens could not be handed down", entry.length)


def _covers(entry: Entry, key: bytes, stop: int) -> bool:
    """Whether an entry can serve all of the first `stop` tokens of `key`."""
    if entry.length < stop or (entry.length > stop and not entry.trimmable):
        return False
    return shared(entry.key, key, 0, stop) == stop


def _require_budget(budget: int) -> None:
    if budget < 0:
        raise ValueError("the budget must not be negative")
