"""The cache against a list of entries searched by brute force."""

from __future__ import annotations

import weakref

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Struct

from dragoman.cache.base import EntryKind, Hit
from dragoman.cache.entry import Entry
from dragoman.cache.prefix import RamPrefixCache
from tests.cache.snapshots import PlainSnapshot

BRANCHES = [tuple(tens * 100 + index for index in range(30)) for tens in range(3)]
NAMESPACES = st.sampled_from(["", "adapter"])
SESSIONS = st.sampled_from([None, "one", "two", "three", "four"])
KINDS: st.SearchStrategy[EntryKind] = st.sampled_from(["boundary", "prompt", "answer"])


@st.composite
def prompts(draw: st.DrawFn) -> tuple[int, ...]:
    """Long shared prefixes: pieces of a few branches one after the other, then a few tokens of its own."""
    tokens: tuple[int, ...] = ()
    for _ in range(draw(st.integers(0, 3))):
        tokens += draw(st.sampled_from(BRANCHES))[: draw(st.sampled_from([1, 3, 4, 7, 8, 9, 30]))]
    return tokens + draw(st.lists(st.integers(0, 2), max_size=5).map(tuple))


class Kept(Struct):
    """An entry of the model."""

    namespace: str
    tokens: tuple[int, ...]
    snapshot: PlainSnapshot
    serial: int


def usable(kept: Kept, tokens: tuple[int, ...]) -> int:
    most = min(len(tokens) - 1, len(kept.tokens))
    length = max((n for n in range(most + 1) if kept.tokens[:n] == tokens[:n]), default=0)
    return length if kept.snapshot.trimmable or length == len(kept.tokens) else 0


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Kept] = []
        self.gone: list[weakref.ref[PlainSnapshot]] = []
        self.refused: list[PlainSnapshot] = []
        self.serial = 0
        self.exceeded = False
        self.mistaken = False

    @initialize(
        budget=st.integers(0, 400),
        block=st.sampled_from([1, 4, 8]),
        digest=st.sampled_from([hash, lambda _: 0, lambda block: block[0]]),
        max_entries=st.sampled_from([3, 100]),
    )
    def begin(self, budget, block, digest, max_entries) -> None:
        self.max_entries = max_entries
        self.cache = RamPrefixCache(
            budget, block=block, digest=digest, max_entries=max_entries, max_sessions=3, spill=self.spilled
        )
        self.budget = budget

    def spilled(self, entry: Entry) -> None:
        """Only what is given here may be missing. What fails here is logged by the cache, so it is told later."""
        stats = self.cache.stats()
        self.exceeded |= stats.bytes > stats.budget
        found = [kept for kept in self.kept if kept.snapshot is entry.snapshot]
        if not found:
            self.refused.append(entry.snapshot)
            return
        self.mistaken |= (found[0].namespace, found[0].tokens) != (entry.namespace, entry.tokens)
        self.drop(found[0])

    def drop(self, kept: Kept) -> None:
        self.kept.remove(kept)
        self.gone.append(weakref.ref(kept.snapshot))

    @rule(
        namespace=NAMESPACES,
        tokens=prompts(),
        extra=st.integers(0, 3),
        nbytes=st.integers(0, 120) | st.integers(0, 500),
        trimmable=st.booleans(),
        kind=KINDS,
        session=SESSIONS,
    )
    def put(self, namespace, tokens, extra, nbytes, trimmable, kind, session) -> None:
        snapshot = PlainSnapshot(len(tokens), nbytes, trimmable=trimmable)
        stored = self.cache.stats().stored
        fits = bool(tokens) and self.budget > 0 and nbytes <= self.budget
        if fits:
            self.supersede(namespace, tokens, trimmable)
        self.cache.put(namespace, tokens + BRANCHES[0][:extra], snapshot, kind, session)
        assert self.cache.stats().stored == stored + fits
        if fits:
            self.serial += 1
            self.kept.append(Kept(namespace, tokens, snapshot, self.serial))
        elif tokens and self.budget:
            assert self.refused.pop() is snapshot

    def supersede(self, namespace: str, tokens: tuple[int, ...], trimmable: bool) -> None:
        for kept in [kept for kept in self.kept if kept.namespace == namespace]:
            begins = tokens[: len(kept.tokens)] == kept.tokens
            if begins and (trimmable or len(kept.tokens) == len(tokens)):
                self.drop(kept)

    @rule(namespace=NAMESPACES, tokens=prompts(), session=SESSIONS)
    def take(self, namespace, tokens, session) -> None:
        before = self.cache.stats()
        miss = self.cache.why_missed(namespace, tokens)
        hit = self.cache.take(namespace, tokens, session)
        after = self.cache.stats()
        offers = [(usable(kept, tokens), -len(kept.tokens), kept.serial, kept) for kept in self.of(namespace)]
        best = max(offers, key=lambda offer: offer[:3], default=(0,))
        length = hit.length if hit else 0
        assert length == best[0]
        assert (miss is None) == (0 < length == len(tokens) - 1)
        assert miss is None or miss.usable == length
        if hit is None:
            assert (after.hits, after.reused_tokens) == (before.hits, before.reused_tokens)
            assert after.misses == before.misses + bool(self.budget)
            return
        assert (after.hits, after.reused_tokens) == (before.hits + 1, before.reused_tokens + length)
        self.check_hit(hit, namespace, tokens)
        if session is None:
            assert hit.snapshot is best[3].snapshot

    def of(self, namespace: str) -> list[Kept]:
        return [kept for kept in self.kept if kept.namespace == namespace]

    def check_hit(self, hit: Hit, namespace: str, tokens: tuple[int, ...]) -> None:
        serving = [kept for kept in self.of(namespace) if kept.snapshot is hit.snapshot]
        assert len(serving) == 1, "an entry that is gone was given"
        assert 0 < hit.length <= len(tokens) - 1
        assert usable(serving[0], tokens) == hit.length

    @rule(which=st.integers(0, 100), cut=st.integers(0, 5), tail=st.lists(st.integers(0, 2), max_size=5).map(tuple))
    def take_near(self, which, cut, tail) -> None:
        if self.kept:
            kept = self.kept[which % len(self.kept)]
            self.take(kept.namespace, kept.tokens[: max(len(kept.tokens) - cut, 0)] + tail, None)

    @rule(nbytes=st.integers(-5, 300))
    def evict(self, nbytes) -> None:
        before = self.cache.stats().bytes
        freed = self.cache.evict(nbytes)
        assert freed == before - self.cache.stats().bytes
        assert freed >= min(nbytes, before)

    @rule(budget=st.integers(0, 400))
    def resize(self, budget) -> None:
        self.budget = budget
        self.cache.resize(budget)

    @rule()
    def clear(self) -> None:
        for kept in list(self.kept):
            self.drop(kept)
        self.cache.clear()

    @invariant()
    def sums_are_right(self) -> None:
        if not hasattr(self, "cache"):
            return
        stats = self.cache.stats()
        assert not self.exceeded
        assert not self.mistaken
        assert stats.budget == self.budget
        assert stats.bytes == sum(kept.snapshot.nbytes for kept in self.kept) <= self.budget
        assert stats.entries == len(self.kept) <= self.max_entries
        self.cache.check()

    @invariant()
    def nothing_holds_what_is_gone(self) -> None:
        assert all(reference() is None for reference in self.gone)


TestCacheModel = CacheMachine.TestCase
TestCacheModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
