"""One run of token blocks in the trie, and who passes through it. Knows nothing of budgets and ages."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cache.entry import Entry


class Node:
    """Tokens `start` to `stop` of every entry in `passing`; both are multiples of the block size. `ends` are the
    entries without another whole block after `stop`; `trimmable` counts those of `passing` that can be trimmed.

    The tokens are read from the entries: a node holds none of its own.
    """

    __slots__ = ("children", "ends", "parent", "passing", "start", "stop", "trimmable")

    def __init__(self, start: int, stop: int, parent: Node | None) -> None:
        self.start = start
        self.stop = stop
        self.parent = parent
        self.children: dict[int, list[Node]] = {}
        self.passing: dict[Entry, None] = {}
        self.ends: dict[Entry, None] = {}
        self.trimmable = 0

    @property
    def key(self) -> bytes:
        """The key of an entry that passes: up to `stop`, that of all."""
        return next(iter(self.passing)).key

    def upward(self) -> Iterator[Node]:
        """This node, its parent, and so on to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def enter(self, entry: Entry) -> None:
        """Let an entry pass."""
        self.passing[entry] = None
        self.trimmable += entry.trimmable

    def leave(self, entry: Entry) -> None:
        """Undo `enter`."""
        del self.passing[entry]
        self.ends.pop(entry, None)
        self.trimmable -= entry.trimmable
