from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cache.entry import Entry
from dragoman.cache.integrity import CacheCorrupt, check_trie
from dragoman.cache.node import Node
from dragoman.cache.packed import WIDTH, pack
from dragoman.cache.trie import Trie
from tests.cache.snapshots import PlainSnapshot, numbers

BLOCK = 4
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=24).map(tuple)
FAMILY = st.tuples(st.integers(1, 16), st.lists(st.integers(0, 1), max_size=3)).map(
    lambda parts: (*range(parts[0]), *parts[1])
)
"""Prompts that follow one line and part from it early or late."""


def entry_of(tokens: tuple[int, ...], *, trimmable: bool = True, serial: int = 0) -> Entry:
    key = pack(tokens)
    assert key is not None
    return Entry(
        namespace="",
        key=key,
        snapshot=PlainSnapshot(len(tokens), trimmable=trimmable),
        kind="prompt",
        length=len(tokens),
        nbytes=1,
        trimmable=trimmable,
        serial=serial,
    )


def key_of(tokens: tuple[int, ...]) -> bytes:
    key = pack(tokens)
    assert key is not None
    return key


def runs(node: Node) -> list[tuple[int, int]]:
    below = [run for bucket in node.children.values() for child in bucket for run in runs(child)]
    return [(node.start, node.stop), *below]


def test_an_entry_is_one_run_until_another_parts_from_it() -> None:
    trie = Trie(BLOCK)
    first, second = entry_of(numbers(22)), entry_of(numbers(9) + numbers(8, 100))
    trie.add(first)
    assert runs(trie.root) == [(0, 0), (0, 20)]
    trie.add(second)
    assert sorted(runs(trie.root)) == [(0, 0), (0, 8), (8, 16), (8, 20)]
    check_trie(trie, BLOCK)
    trie.remove(first)
    assert sorted(runs(trie.root)) == [(0, 0), (0, 8), (8, 16)]
    trie.remove(second)
    assert runs(trie.root) == [(0, 0)]
    assert not trie.root.passing
    assert len(trie) == 0


def test_an_absent_entry_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        Trie(BLOCK).remove(entry_of((1, 2)))


@given(st.lists(TOKENS, unique=True), TOKENS, st.data())
def test_prefixes_and_nearest_against_brute_force(
    kept: list[tuple[int, ...]], asked: tuple[int, ...], data: st.DataObject
) -> None:
    trie = Trie(BLOCK, data.draw(st.sampled_from([hash, lambda _: 0, lambda block: block[0] & 1])))
    entries = {tokens: entry_of(tokens, serial=serial) for serial, tokens in enumerate(kept)}
    for entry in entries.values():
        trie.add(entry)
    for tokens in kept[::3]:
        trie.remove(entries.pop(tokens))
    check_trie(trie, BLOCK)
    found = trie.prefixes(key_of(asked))
    assert found == sorted(
        (entry for tokens, entry in entries.items() if asked[: len(tokens)] == tokens), key=lambda entry: entry.length
    )
    stop = data.draw(st.integers(0, len(asked)))
    nearest = trie.nearest(key_of(asked), stop)
    lengths = [max(n for n in range(stop + 1) if tokens[:n] == asked[:n]) for tokens in entries]
    assert (nearest.length if nearest else None) == max(lengths, default=None)


@given(
    st.lists(st.tuples(FAMILY, st.booleans()), min_size=1, max_size=12, unique_by=lambda kept: kept[0]),
    FAMILY,
    st.integers(0, 24),
)
def test_longest_against_brute_force(
    kept: list[tuple[tuple[int, ...], bool]], asked: tuple[int, ...], stop: int
) -> None:
    trie = Trie(2)
    stop = min(stop, len(asked))
    best = (0, 0, 0)
    for serial, (tokens, trimmable) in enumerate(kept):
        trie.add(entry_of(tokens, trimmable=trimmable, serial=serial))
        length = max(n for n in range(stop + 1) if tokens[:n] == asked[:n])
        if trimmable or length == len(tokens):
            best = max(best, (length, -len(tokens), serial))
    match = trie.longest(key_of(asked), stop)
    found = (match.length, -match.entry.length, match.entry.serial) if match else (0, 0, 0)
    assert found == (best if best[0] else (0, 0, 0))


def test_trimmable_entries_above_untrimmable_ones_serve() -> None:
    trie = Trie(BLOCK)
    for length, trimmable in ((40, False), (30, False), (6, False)):
        trie.add(entry_of(numbers(length), trimmable=trimmable))
    parted = entry_of((*numbers(18), 99, 98), trimmable=True)
    trie.add(parted)
    match = trie.longest(key_of((*numbers(29), 1)), 29)
    assert match is not None
    assert (match.entry, match.length) == (parted, 18)
    trie.remove(parted)
    match = trie.longest(key_of((*numbers(29), 1)), 29)
    assert match is not None
    assert match.length == 6


def broken_tries() -> list[tuple[str, Trie]]:
    cases: list[tuple[str, Trie]] = []

    def case(name: str) -> tuple[Trie, Node]:
        trie = Trie(BLOCK)
        for tokens in (numbers(22), numbers(9) + numbers(8, 100)):
            trie.add(entry_of(tokens))
        cases.append((name, trie))
        return trie, next(iter(trie.root.children.values()))[0]

    _, node = case("count of trimmable")
    node.trimmable += 1
    _, node = case("do not go on")
    node.passing[entry_of(numbers(30))] = None
    node.trimmable += 1
    _, node = case("of another run")
    next(iter(node.children.values()))[0].parent = None
    trie, node = case("wrong place")
    trie.root.children = {place + 1: bucket for place, bucket in trie.root.children.items()}
    _, node = case("an empty bucket")
    node.children[0] = []
    trie, _ = case("not in the trie")
    trie._home[entry_of(numbers(3))] = trie.root
    return cases


@pytest.mark.parametrize(
    ("sentence", "trie"), broken_tries(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_check_finds_what_is_broken(sentence: str, trie: Trie) -> None:
    with pytest.raises(CacheCorrupt, match=sentence):
        check_trie(trie, BLOCK)


def test_runs_hold_no_tokens_of_their_own() -> None:
    trie = Trie(BLOCK)
    trie.add(entry_of(numbers(100)))
    node = next(iter(trie.root.children.values()))[0]
    assert len(node.key) == 100 * WIDTH
    assert node.key is next(iter(trie)).key
