from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cache.base import EntryKind, PrefixCache
from dragoman.cache.entry import Entry
from dragoman.cache.prefix import RamPrefixCache
from tests.cache.snapshots import PlainSnapshot, numbers

HEAD = numbers(100)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def put(
    cache: RamPrefixCache,
    tokens: tuple[int, ...],
    nbytes: int = 100,
    *,
    trimmable: bool = True,
    kind: EntryKind = "prompt",
    session: str | None = None,
    namespace: str = "",
) -> PlainSnapshot:
    snapshot = PlainSnapshot(len(tokens), nbytes, trimmable=trimmable)
    cache.put(namespace, tokens, snapshot, kind, session)
    cache.check()
    return snapshot


def reused(cache: RamPrefixCache, tokens: tuple[int, ...], session: str | None = None, namespace: str = "") -> int:
    hit = cache.take(namespace, tokens, session)
    cache.check()
    return 0 if hit is None else hit.length


def test_it_is_a_prefix_cache() -> None:
    cache: PrefixCache = RamPrefixCache(1000)
    assert cache.stats().budget == 1000


@pytest.mark.parametrize("arguments", [{"block": 0}, {"max_entries": 0}, {"max_sessions": 0}])
def test_bad_settings_are_told(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        RamPrefixCache(10, **arguments)
    with pytest.raises(ValueError, match="negative"):
        RamPrefixCache(-1)


@pytest.mark.parametrize("trimmable", [True, False])
def test_a_whole_entry_serves_a_longer_prompt(trimmable: bool) -> None:
    cache = RamPrefixCache(1000)
    snapshot = put(cache, HEAD, trimmable=trimmable)
    hit = cache.take("", (*HEAD, 7))
    assert hit is not None
    assert (hit.length, hit.snapshot) == (100, snapshot)


@pytest.mark.parametrize(("trimmable", "length"), [(True, 99), (False, 0)])
def test_the_last_token_is_never_reused(trimmable: bool, length: int) -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, trimmable=trimmable)
    assert reused(cache, HEAD) == length


@pytest.mark.parametrize("shared", [1, 31, 32, 33, 63, 64, 95, 98, 99])
def test_a_trimmable_entry_serves_exactly_what_is_shared(shared: int) -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD)
    assert reused(cache, HEAD[:shared] + numbers(50, 1000)) == shared
    assert reused(cache, (*HEAD[:shared], 1000)) == shared
    assert reused(cache, HEAD[: shared + 1]) == shared


def test_an_untrimmable_entry_serves_nothing_once_it_parts() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, trimmable=False)
    assert reused(cache, HEAD[:99] + numbers(50, 1000)) == 0


def test_a_longer_untrimmable_entry_does_not_hide_a_shorter_one() -> None:
    cache = RamPrefixCache(1000)
    boundary = put(cache, HEAD[:70], trimmable=False, kind="boundary")
    put(cache, HEAD, trimmable=False, kind="answer")
    assert cache.stats().entries == 2
    hit = cache.take("", HEAD[:90] + numbers(20, 1000))
    assert hit is not None
    assert (hit.length, hit.snapshot) == (70, boundary)


def test_a_trimmable_entry_replaces_what_it_begins_with() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD[:33])
    put(cache, HEAD[:64], trimmable=False)
    other = put(cache, numbers(40, 500))
    whole = put(cache, HEAD)
    assert (cache.stats().entries, cache.stats().bytes, cache.stats().evicted) == (2, 200, 0)
    for tokens, snapshot in ((HEAD[:33], whole), (HEAD[:65], whole), (numbers(41, 500), other)):
        hit = cache.take("", (*tokens, 7))
        assert hit is not None
        assert hit.snapshot is snapshot


def test_what_replaces_a_boundary_lives_as_long_as_one() -> None:
    cache = RamPrefixCache(400)
    put(cache, HEAD[:50], kind="boundary")
    put(cache, HEAD, kind="answer")
    for start in (1000, 2000, 3000, 4000):
        put(cache, numbers(50, start), kind="answer")
    assert reused(cache, (*HEAD, 7)) == 100


def test_the_newest_of_the_same_tokens_is_kept_and_counted_once() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, 300)
    put(cache, HEAD, 200, trimmable=False)
    newest = put(cache, HEAD, 250)
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.stored, stats.evicted) == (1, 250, 3, 0)
    hit = cache.take("", (*HEAD, 7))
    assert hit is not None
    assert hit.snapshot is newest


def test_of_equal_lengths_the_least_trimmed_and_then_the_newest_serves() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD + numbers(40, 1000))
    near = put(cache, HEAD + numbers(5, 2000))
    newer = put(cache, HEAD + numbers(5, 3000))
    put(cache, HEAD + numbers(9, 4000))
    hit = cache.take("", (*HEAD, 7, 8))
    assert hit is not None
    assert hit.snapshot is newer
    assert hit.snapshot is not near


def test_only_the_tokens_of_the_snapshot_count() -> None:
    cache = RamPrefixCache(1000)
    cache.put("", HEAD, PlainSnapshot(50, trimmable=False))
    assert reused(cache, HEAD[:50] + numbers(9, 1000)) == 50


def test_a_snapshot_of_more_tokens_than_given_is_a_mistake() -> None:
    cache = RamPrefixCache(1000)
    with pytest.raises(ValueError, match="101 tokens was given 100"):
        cache.put("", HEAD, PlainSnapshot(101))
    with pytest.raises(ValueError, match="negative"):
        cache.put("", HEAD, PlainSnapshot(100, -1))
    cache.check()


def test_what_can_serve_nobody_is_refused() -> None:
    cache = RamPrefixCache(1000)
    cache.put("", HEAD, PlainSnapshot(0))
    cache.put("", (1, -5), PlainSnapshot(2))
    assert (cache.stats().refused, cache.stats().entries) == (2, 0)
    assert cache.take("", (1, -5, 2**40)) is None
    assert cache.take("", ()) is None
    assert cache.take("", (1,)) is None


def test_an_entry_above_the_budget_is_refused_and_costs_the_others_nothing() -> None:
    cache = RamPrefixCache(250)
    put(cache, HEAD)
    put(cache, numbers(50, 500))
    put(cache, numbers(60, 900), 251)
    put(cache, (*HEAD, 1), 251)
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.refused, stats.evicted) == (2, 200, 2, 0)
    assert reused(cache, (*HEAD, 1, 2)) == 100


def test_an_entry_of_the_whole_budget_is_kept() -> None:
    cache = RamPrefixCache(250)
    put(cache, HEAD)
    put(cache, numbers(60, 900), 250)
    assert (cache.stats().entries, cache.stats().bytes, cache.stats().evicted) == (1, 250, 1)


def test_no_budget_is_off() -> None:
    cache = RamPrefixCache(0)
    put(cache, HEAD, 0)
    assert reused(cache, (*HEAD, 1)) == 0
    assert cache.stats() == RamPrefixCache(0).stats()


def test_a_hit_is_a_use() -> None:
    cache = RamPrefixCache(200)
    put(cache, HEAD)
    put(cache, numbers(50, 500))
    assert reused(cache, (*HEAD, 1)) == 100
    put(cache, numbers(60, 900))
    assert reused(cache, (*HEAD, 1)) == 100
    assert reused(cache, (*numbers(50, 500), 1)) == 0


def test_entries_are_bounded_whatever_their_bytes() -> None:
    cache = RamPrefixCache(10, max_entries=3)
    for start in range(0, 1000, 100):
        put(cache, numbers(40, start), 0)
    assert (cache.stats().entries, cache.stats().evicted) == (3, 7)


def test_the_counters() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD)
    for tokens in ((*HEAD, 1), HEAD[:41], numbers(10, 500), (5,)):
        reused(cache, tokens)
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.reused_tokens, stats.stored) == (2, 2, 140, 1)


def test_namespaces_are_apart() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, namespace="a")
    put(cache, HEAD[:50], namespace="b", trimmable=False)
    assert reused(cache, (*HEAD, 1)) == 0
    assert reused(cache, (*HEAD, 1), namespace="a") == 100
    assert reused(cache, (*HEAD, 1), namespace="b") == 50
    assert cache.stats().entries == 2


def test_resize() -> None:
    cache = RamPrefixCache(1000)
    for start in range(0, 1000, 100):
        put(cache, numbers(40, start))
    cache.resize(350)
    cache.check()
    assert (cache.stats().bytes, cache.stats().budget, cache.stats().evicted) == (300, 350, 7)
    assert reused(cache, (*numbers(40, 900), 1)) == 40
    cache.resize(0)
    cache.check()
    assert (cache.stats().entries, cache.stats().bytes) == (0, 0)
    with pytest.raises(ValueError, match="negative"):
        cache.resize(-1)
    cache.resize(100)
    put(cache, HEAD)
    assert reused(cache, (*HEAD, 1)) == 100


def test_a_budget_of_nothing_also_drops_entries_of_no_bytes() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, 0)
    cache.resize(0)
    assert cache.stats().entries == 0


def test_evict_frees_what_is_asked_for_or_all() -> None:
    cache = RamPrefixCache(1000)
    for start in range(0, 500, 100):
        put(cache, numbers(40, start))
    assert cache.evict(-5) == 0
    assert cache.evict(0) == 0
    assert cache.evict(150) == 200
    assert cache.evict(1) == 100
    assert cache.evict(10_000) == 200
    assert cache.evict(1) == 0
    cache.check()
    assert (cache.stats().entries, cache.stats().evicted) == (0, 5)


def test_clear_forgets_all_but_the_counters() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, session="s")
    reused(cache, (*HEAD, 1), session="s")
    cache.clear()
    cache.check()
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.hits, stats.evicted) == (0, 0, 1, 0)
    assert reused(cache, (*HEAD, 1), session="s") == 0


def test_the_entry_a_session_used_last_is_evicted_after_others() -> None:
    cache = RamPrefixCache(300)
    put(cache, HEAD, session="s")
    for start in range(500, 1500, 100):
        put(cache, numbers(40, start))
    assert reused(cache, (*HEAD, 1)) == 100
    put(cache, numbers(40, 5000), session="s")
    for start in range(6000, 7000, 100):
        put(cache, numbers(40, start))
    assert reused(cache, (*HEAD, 1)) == 0


def test_a_session_holds_what_replaced_its_entry() -> None:
    cache = RamPrefixCache(300)
    put(cache, HEAD, session="s")
    put(cache, (*HEAD, 1))
    for start in range(500, 1500, 100):
        put(cache, numbers(40, start))
    assert reused(cache, (*HEAD, 1, 2)) == 101


def test_sessions_cannot_keep_others_out() -> None:
    cache = RamPrefixCache(300)
    for index in range(10):
        put(cache, numbers(40, index * 100), session=f"s{index}")
    assert reused(cache, (*numbers(40, 900), 1)) == 40
    assert cache.stats().entries == 3


def test_only_sessions_used_lately_hold() -> None:
    cache = RamPrefixCache(300, max_sessions=2)
    put(cache, HEAD, session="old")
    for index in range(1, 4):
        put(cache, numbers(40, index * 1000), session=f"s{index}")
    put(cache, numbers(40, 9000))
    assert reused(cache, (*HEAD, 1)) == 0


def test_a_session_is_a_hint_and_isolates_nobody() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD[:60], session="mine")
    longest = put(cache, HEAD + numbers(10, 700), session="theirs", trimmable=False)
    hit = cache.take("", HEAD + numbers(11, 700), "mine")
    assert hit is not None
    assert (hit.length, hit.snapshot) == (110, longest)
    assert reused(cache, HEAD[:50], "mine") == 49
    assert reused(cache, HEAD[:50], "unknown") == 49


def test_a_session_gets_its_own_entry_where_it_covers_all() -> None:
    cache = RamPrefixCache(1000)
    mine = put(cache, HEAD + numbers(20, 700), session="mine")
    put(cache, HEAD + numbers(3, 800), session="theirs")
    hit = cache.take("", (*HEAD, 5), "mine")
    assert hit is not None
    assert (hit.length, hit.snapshot) == (100, mine)


def test_a_session_s_own_entry_is_not_trimmed_where_it_cannot_be() -> None:
    cache = RamPrefixCache(1000)
    put(cache, HEAD, session="mine", trimmable=False)
    assert reused(cache, HEAD, "mine") == 0
    assert reused(cache, HEAD[:80], "mine") == 0
    assert reused(cache, (*HEAD, 1), "mine") == 100


def test_victims_and_what_is_too_large_are_handed_down_after_they_left() -> None:
    down: list[tuple[tuple[int, ...], int]] = []

    def spill(entry: Entry) -> None:
        down.append((entry.tokens, cache.stats().bytes))

    cache = RamPrefixCache(100, spill=spill)
    put(cache, HEAD)
    put(cache, numbers(40, 500))
    put(cache, numbers(40, 500), 90)
    put(cache, numbers(50, 900), 101)
    assert down == [(HEAD, 0), (numbers(50, 900), 90)]


def test_a_lower_tier_that_fails_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def spill(entry: Entry) -> None:
        raise OSError("disk full")

    cache = RamPrefixCache(100, spill=spill)
    put(cache, HEAD)
    put(cache, numbers(40, 500))
    assert reused(cache, (*numbers(40, 500), 1)) == 40
    assert "could not be handed down" in caplog.text


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("way", ["clear", "evict", "resize", "replaced", "superseded", "pushed out"])
def test_a_dropped_snapshot_is_freed_at_once(way: str) -> None:
    cache = RamPrefixCache(300)
    gone = weakref.ref(put(cache, HEAD, session="s"))
    put(cache, HEAD[:50] + numbers(10, 500), session="s", kind="answer")
    reused(cache, (*HEAD, 1), session="s")
    assert gone() is not None
    if way == "clear":
        cache.clear()
    elif way == "evict":
        cache.evict(300)
    elif way == "resize":
        cache.resize(0)
    elif way == "replaced":
        put(cache, HEAD)
    elif way == "superseded":
        put(cache, (*HEAD, 1))
    else:
        put(cache, numbers(40, 900), 300)
    cache.check()
    assert gone() is None


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=30).map(tuple), st.booleans()), max_size=30),
    st.lists(st.integers(0, 1), min_size=2, max_size=30).map(tuple),
    st.sampled_from([lambda _: 0, lambda block: block[0], lambda block: len(block)]),
)
def test_hashes_that_collide_give_no_wrong_hit(kept, asked, digest) -> None:
    bad, good = RamPrefixCache(10**6, block=4, digest=digest), RamPrefixCache(10**6, block=4)
    for tokens, trimmable in kept:
        for cache in (bad, good):
            put(cache, tokens, trimmable=trimmable)
    hit = bad.take("", asked)
    assert reused(good, asked) == (hit.length if hit else 0)


def test_case_33_bytes_never_exceed_the_budget_over_200_distinct_prompts() -> None:
    budget, token_bytes = 64 << 20, 11_520
    cache = RamPrefixCache(budget)
    watched: list[weakref.ref[PlainSnapshot]] = []
    peak = 0
    for request in range(200):
        prompt = numbers(2000, request * 10_000)
        assert reused(cache, prompt) == 0
        aborted = request % 3 == 0
        for length, kind in ((1900, "boundary"), (2000, "answer")):
            if aborted and kind == "answer":
                continue
            watched.append(weakref.ref(put(cache, prompt[:length], length * token_bytes, kind=kind)))
            assert cache.stats().bytes <= budget
            peak = max(peak, cache.stats().bytes)
    assert peak > budget // 2
    assert sum(reference() is not None for reference in watched) == cache.stats().entries == 2
    cache.clear()
    assert cache.stats().bytes == 0
    assert all(reference() is None for reference in watched)


def test_a_prompt_of_100_000_tokens_is_one_run_and_found_to_the_token() -> None:
    cache = RamPrefixCache(10**9)
    tokens = numbers(100_000)
    put(cache, tokens, 10**6)
    put(cache, (*tokens[:70_001], 7), 10**6)
    assert reused(cache, (*tokens[:99_999], 0, 0)) == 99_999
    assert reused(cache, (*tokens[:50_001], 0, 0)) == 50_001
    assert reused(cache, (*tokens[:70_001], 7, 0)) == 70_002
