"""The entries of one namespace by their tokens, in runs of whole blocks. Knows no budget and no age."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from dragoman.cache.entry import Entry
from dragoman.cache.node import Node
from dragoman.cache.packed import WIDTH, shared

BlockHash = Callable[[bytes], int]
"""Where a block is looked for among the children of a node. Equal blocks must have equal hashes, no more: what is
found is compared. A child is looked for under its parent only, so the hash need not repeat the path."""


class Match(Struct, frozen=True):
    """`length` leading tokens that `entry` shares with a key."""

    entry: Entry
    length: int


class Descent(Struct, frozen=True):
    """How far a key goes: `path` are the runs it matches whole, from the root; `into` the run it matches only up to
    token `length`, at least one block of it."""

    path: list[Node]
    into: Node | None
    length: int


class Trie:
    """Runs are split where entries part and never joined again: a path has at most one run for each block.

    Tokens after the last whole block of an entry are compared one by one, so lengths are exact.
    """

    def __init__(self, block: int, digest: BlockHash = hash) -> None:
        self.root = Node(0, 0, None)
        self._block = block
        self._digest = digest
        self._home: dict[Entry, Node] = {}

    def __len__(self) -> int:
        return len(self._home)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._home)

    def add(self, entry: Entry) -> None:
        """Hang an entry in. One of the same tokens must not be there."""
        stop = entry.length // self._block * self._block
        descent = self._descend(entry.key, stop)
        node = descent.path[-1]
        if descent.into is not None:
            node = self._split(descent.into, descent.length // self._block * self._block)
        if node.stop < stop:
            node = self._attach(Node(node.stop, stop, node), node, entry.key)
        self._home[entry] = node
        node.ends[entry] = None
        for passed in node.upward():
            passed.enter(entry)

    def remove(self, entry: Entry) -> None:
        """Take an entry out, and the runs that only it needed. Raises KeyError when it is not there."""
        for node in self._home.pop(entry).upward():
            node.leave(entry)
            if not node.passing and node.parent is not None:
                self._detach(node, node.parent, entry.key)

    def prefixes(self, key: bytes) -> list[Entry]:
        """The entries all of whose tokens begin `key`; the shortest first, one of the same tokens last."""
        path = self._descend(key, len(key) // WIDTH).path
        found = [entry for node in path for entry in node.ends if key.startswith(entry.key)]
        return sorted(found, key=lambda entry: entry.length)

    def longest(self, key: bytes, stop: int) -> Match | None:
        """The longest usable prefix of the first `stop` tokens of `key`. An entry that goes on after the tokens it
        shares counts only if it is trimmable. Of equal ones that to be trimmed least, then the newest."""
        descent = self._descend(key, stop)
        if descent.into is not None and descent.into.trimmable:
            return _best(Match(entry, descent.length) for entry in descent.into.passing if entry.trimmable)
        # Each run on the way up can only offer less than the one below it, so the first offer is the best.
        for node in reversed(descent.path):
            pool = node.passing if node.trimmable else node.ends
            best = _best(match for match in self._matches(pool, node, key, stop) if _usable(match))
            if best is not None:
                return best
        return None

    def nearest(self, key: bytes, stop: int) -> Match | None:
        """The entry that shares the most of the first `stop` tokens of `key`, usable or not; None when none is kept."""
        descent = self._descend(key, stop)
        if descent.into is not None:
            return _best(Match(entry, descent.length) for entry in descent.into.passing)
        node = descent.path[-1]
        return _best(self._matches(node.passing, node, key, stop))

    def place(self, key: bytes, start: int) -> int:
        """The hash of the block of `key` at token `start`."""
        return self._digest(self._block_at(key, start))

    def _matches(self, pool: Iterable[Entry], node: Node, key: bytes, stop: int) -> Iterator[Match]:
        """What entries that pass `node` share with a key that matches it whole and parts within a block after it."""
        start, end = node.stop, min(stop, node.stop + self._block)
        first = key[start * WIDTH : (start + 1) * WIDTH]
        for entry in pool:
            # Many part at the very next token: that is seen without comparing further.
            further = entry.key.startswith(first, start * WIDTH)
            yield Match(entry, start + shared(entry.key, key, start, end) if further else start)

    def _descend(self, key: bytes, stop: int) -> Descent:
        path = [self.root]
        while (child := self._child(path[-1], key, stop)) is not None:
            length = child.start + shared(child.key, key, child.start, min(child.stop, stop))
            if length < child.stop:
                return Descent(path, child, length)
            path.append(child)
        return Descent(path, None, path[-1].stop)

    def _child(self, node: Node, key: bytes, stop: int) -> Node | None:
        if node.stop + self._block > stop:
            return None
        block = self._block_at(key, node.stop)
        for child in node.children.get(self._digest(block), ()):
            if child.key.startswith(block, node.stop * WIDTH):
                return child
        return None

    def _split(self, node: Node, at: int) -> Node:
        """Cut a run in two at token `at`; gives the upper part."""
        parent, key = node.parent, node.key
        if parent is None:
            raise ValueError("the root has no tokens to split")
        self._detach(node, parent, key)
        upper = self._attach(Node(node.start, at, parent), parent, key)
        upper.passing = dict(node.passing)
        upper.trimmable = node.trimmable
        node.start, node.parent = at, upper
        self._attach(node, upper, key)
        return upper

    def _attach(self, node: Node, parent: Node, key: bytes) -> Node:
        parent.children.setdefault(self.place(key, node.start), []).append(node)
        return node

    def _detach(self, node: Node, parent: Node, key: bytes) -> None:
        place = self.place(key, node.start)
        parent.children[place].remove(node)
        if not parent.children[place]:
            del parent.children[place]

    def _block_at(self, key: bytes, start: int) -> bytes:
        return key[start * WIDTH : (start + self._block) * WIDTH]


def _usable(match: Match) -> bool:
    return match.length > 0 and (match.entry.trimmable or match.length == match.entry.length)


def _best(matches: Iterable[Match]) -> Match | None:
    return max(matches, key=lambda match: (match.length, -match.entry.length, match.entry.serial), default=None)
