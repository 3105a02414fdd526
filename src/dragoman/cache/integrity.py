"""Whether the parts of a cache agree. Slow and thorough: for tests and idle moments. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cache.entry import Entry
from dragoman.cache.node import Node
from dragoman.cache.packed import WIDTH
from dragoman.cache.trie import Trie


class CacheCorrupt(RuntimeError):
    """The cache contradicts itself; the message says where."""


def require(holds: bool, sentence: str) -> None:
    """Raise CacheCorrupt with `sentence` unless it holds."""
    if not holds:
        raise CacheCorrupt(sentence)


def check_trie(trie: Trie, block: int) -> None:
    """Every run is where its tokens say, is needed by an entry, and knows who passes it. Raises CacheCorrupt."""
    nodes = list(_nodes(trie.root))
    for node in nodes:
        _check_node(trie, node, block)
    ended = [entry for node in nodes for entry in node.ends]
    require(len(ended) == len(set(ended)), "an entry ends twice")
    require(set(ended) == set(trie), "an entry is not in the trie, or only there")
    require(len({entry.key for entry in ended}) == len(ended), "two entries have the same tokens")


def _nodes(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for bucket in node.children.values() for child in bucket]


def _check_node(trie: Trie, node: Node, block: int) -> None:
    where = f"run {node.start} to {node.stop}"
    require(node.start % block == 0 and node.stop % block == 0, f"{where}: not whole blocks")
    require(node.trimmable == sum(entry.trimmable for entry in node.passing), f"{where}: wrong count of trimmable")
    _check_children(trie, node, where)
    if node.parent is not None:
        require(node.start < node.stop, f"{where}: no tokens")
        require(bool(node.passing), f"{where}: an orphan")
        require(len({entry.key[: node.stop * WIDTH] for entry in node.passing}) == 1, f"{where}: unequal tokens")
    for entry in node.ends:
        _check_end(entry, node, block, where)


def _check_children(trie: Trie, node: Node, where: str) -> None:
    expected = dict(node.ends)
    for place, bucket in node.children.items():
        require(bool(bucket), f"{where}: an empty bucket")
        for child in bucket:
            require(child.parent is node and child.start == node.stop, f"{where}: a child of another run")
            require(trie.place(child.key, child.start) == place, f"{where}: a child in the wrong place")
            require(not expected.keys() & child.passing.keys(), f"{where}: an entry goes two ways")
            expected.update(child.passing)
    require(expected.keys() == node.passing.keys(), f"{where}: entries come in that do not go on")


def _check_end(entry: Entry, node: Node, block: int, where: str) -> None:
    require(entry.length == len(entry.key) // WIDTH, f"{where}: an entry of the wrong length")
    require(entry.length // block * block == node.stop, f"{where}: an entry ends elsewhere")
