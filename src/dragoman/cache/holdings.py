"""All entries there are, wherever each must be known: trie, queue, session, sum of bytes. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cache.entry import Entry
from dragoman.cache.integrity import check_trie, require
from dragoman.cache.policy import EvictionPolicy
from dragoman.cache.sessions import Sessions
from dragoman.cache.trie import BlockHash, Trie


class Holdings:
    """An entry is in all of its parts or in none. `bytes` is the sum of the sizes; no budget is known here."""

    def __init__(self, block: int, digest: BlockHash, max_sessions: int) -> None:
        self.bytes = 0
        self.sessions = Sessions(max_sessions)
        self._block = block
        self._digest = digest
        self._policy = EvictionPolicy()
        self._tries: dict[str, Trie] = {}

    def __len__(self) -> int:
        return len(self._policy)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._policy)

    def trie(self, namespace: str) -> Trie | None:
        """The entries of a namespace by their tokens; None when there are none."""
        return self._tries.get(namespace)

    def add(self, entry: Entry) -> None:
        """Take it in as the most recently used one. One of the same tokens must not be there."""
        trie = self._tries.get(entry.namespace)
        if trie is None:
            trie = self._tries[entry.namespace] = Trie(self._block, self._digest)
        trie.add(entry)
        self._policy.use(entry)
        self.bytes += entry.nbytes

    def use(self, entry: Entry) -> None:
        """Make it the most recently used one."""
        self._policy.use(entry)

    def remove(self, entry: Entry) -> None:
        """Let it go entirely. Raises KeyError when it is not there."""
        trie = self._tries[entry.namespace]
        trie.remove(entry)
        if not len(trie):
            del self._tries[entry.namespace]
        self._policy.remove(entry)
        self.sessions.forget(entry)
        self.bytes -= entry.nbytes

    def victim(self) -> Entry | None:
        """The one to go next; None when there is none."""
        return self._policy.victim(self.sessions)

    def check(self) -> None:
        """Raise CacheCorrupt when the parts contradict each other."""
        entries = set(self._policy)
        require(self.bytes == sum(entry.nbytes for entry in entries), "the bytes do not add up")
        require(self.sessions.entries() <= entries, "a session holds an entry that is gone")
        hung = [entry for trie in self._tries.values() for entry in trie]
        require(len(hung) == len(entries) and set(hung) == entries, "the tries and the queues differ")
        for namespace, trie in self._tries.items():
            require(len(trie) > 0, "an empty namespace is kept")
            require(all(entry.namespace == namespace for entry in trie), "an entry is in another's namespace")
            check_trie(trie, self._block)
