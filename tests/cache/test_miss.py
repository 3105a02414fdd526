from __future__ import annotations

import pytest

from dragoman.cache.ghosts import Ghosts
from dragoman.cache.miss import Miss
from dragoman.cache.packed import pack
from dragoman.cache.prefix import RamPrefixCache
from tests.cache.snapshots import PlainSnapshot, numbers

HEAD = numbers(100)


def keep(cache: RamPrefixCache, tokens: tuple[int, ...], nbytes: int = 100, *, trimmable: bool = False) -> None:
    cache.put("", tokens, PlainSnapshot(len(tokens), nbytes, trimmable=trimmable))


def test_the_cache_is_off_or_the_prompt_too_short_or_nothing_is_kept() -> None:
    assert RamPrefixCache(0).why_missed("", HEAD) == Miss(reason="off")
    cache = RamPrefixCache(1000)
    assert cache.why_missed("", (1,)) == Miss(reason="short")
    assert cache.why_missed("", ()) == Miss(reason="short")
    assert cache.why_missed("", HEAD) == Miss(reason="empty")
    keep(cache, HEAD)
    assert cache.why_missed("other", HEAD) == Miss(reason="empty")


def test_no_miss_when_all_but_the_last_is_usable() -> None:
    cache = RamPrefixCache(1000)
    keep(cache, HEAD)
    assert cache.why_missed("", (*HEAD, 7)) is None


def test_an_untrimmable_entry_that_parts() -> None:
    cache = RamPrefixCache(1000)
    keep(cache, HEAD)
    miss = cache.why_missed("", (*HEAD[:70], 999, 5))
    assert miss == Miss(reason="untrimmable", shared=70, length=100, kept=70, asked=999)
    assert str(miss) == (
        "The closest kept prefix shares 70 of its 100 tokens and its state cannot be trimmed, where it has token 70 "
        "and the prompt has 999; 0 tokens can be reused."
    )


@pytest.mark.parametrize("length", [50, 64, 65, 100])
def test_an_untrimmable_entry_that_goes_on(length: int) -> None:
    cache = RamPrefixCache(1000)
    keep(cache, HEAD)
    assert cache.why_missed("", HEAD[:length]) == Miss(reason="untrimmable", shared=length - 1, length=100)


def test_an_untrimmable_entry_beside_a_usable_one() -> None:
    cache = RamPrefixCache(1000)
    keep(cache, HEAD[:40])
    keep(cache, HEAD)
    miss = cache.why_missed("", (*HEAD[:70], 999, 5))
    assert miss == Miss(reason="untrimmable", usable=40, shared=70, length=100, kept=70, asked=999)


def test_the_first_token_that_differs() -> None:
    cache = RamPrefixCache(1000)
    keep(cache, HEAD, trimmable=True)
    assert cache.why_missed("", (5, 6)) == Miss(reason="diverged", length=100, kept=0, asked=5)
    miss = cache.why_missed("", (*HEAD[:33], 999, 5))
    assert miss == Miss(reason="diverged", usable=33, shared=33, length=100, kept=33, asked=999)


def test_the_prompt_goes_on_where_the_entry_ends() -> None:
    cache = RamPrefixCache(1000)
    keep(cache, HEAD)
    assert cache.why_missed("", (*HEAD, 7, 8)) == Miss(reason="ended", usable=100, shared=100, length=100)


def test_an_entry_that_was_evicted_or_refused() -> None:
    cache = RamPrefixCache(100)
    keep(cache, HEAD[:60])
    keep(cache, numbers(50, 500))
    assert cache.why_missed("", HEAD) == Miss(reason="evicted", shared=60, length=60)
    keep(cache, HEAD[:80], 101)
    assert cache.why_missed("", HEAD) == Miss(reason="refused", shared=80, length=80)
    keep(cache, HEAD[:90])
    assert cache.why_missed("", HEAD) == Miss(reason="ended", usable=90, shared=90, length=90)
    cache.clear()
    assert cache.why_missed("", HEAD) == Miss(reason="empty")


def test_explaining_changes_nothing() -> None:
    cache = RamPrefixCache(200)
    keep(cache, HEAD)
    keep(cache, numbers(50, 500))
    before = cache.stats()
    assert cache.why_missed("", (*HEAD, 7)) is None
    assert cache.stats() == before
    keep(cache, numbers(50, 900))
    assert cache.take("", (*HEAD, 7)) is None


def test_tokens_that_no_model_has_are_explained_too() -> None:
    cache = RamPrefixCache(100)
    keep(cache, HEAD)
    miss = cache.why_missed("", (-1, 2**50))
    assert miss is not None
    assert (miss.reason, miss.usable) == ("diverged", 0)


def test_every_reason_has_a_sentence() -> None:
    reasons = ("off", "short", "empty", "diverged", "ended", "untrimmable", "evicted", "refused")
    for reason in reasons:
        assert str(Miss(reason=reason, shared=3, length=4)).endswith("0 tokens can be reused.")


def test_ghosts_are_few_and_the_longest_that_fits_is_told() -> None:
    ghosts = Ghosts(3)
    for length in (90, 10, 20, 30):
        ghosts.add("", pack(HEAD[:length]) or b"", "evicted")
    assert len(ghosts) == 3
    key = pack(HEAD) or b""
    assert [getattr(ghosts.longest("", key, stop), "length", None) for stop in (9, 10, 29, 99)] == [None, 10, 20, 30]
    assert ghosts.longest("other", key, 99) is None
    assert ghosts.longest("", pack(numbers(99, 1)) or b"", 99) is None
