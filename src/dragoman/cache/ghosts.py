"""A short memory of what is no longer kept, to explain misses. Holds a digest of the tokens, never a snapshot."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from dragoman.cache.packed import WIDTH

Fate = Literal["evicted", "refused"]

_DIGEST_BYTES = 8


class Ghost(Struct, frozen=True):
    """An entry of `length` tokens that is gone."""

    namespace: str
    length: int
    digest: bytes
    fate: Fate


class Ghosts:
    """The last `limit` entries evicted or refused."""

    def __init__(self, limit: int) -> None:
        self._ghosts: deque[Ghost] = deque(maxlen=limit)

    def __len__(self) -> int:
        return len(self._ghosts)

    def add(self, namespace: str, key: bytes, fate: Fate) -> None:
        """Remember that an entry of these tokens is not kept."""
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        self._ghosts.append(Ghost(namespace, len(key) // WIDTH, digest, fate))

    def longest(self, namespace: str, key: bytes, stop: int) -> Ghost | None:
        """The longest one, and the latest of these, all of whose tokens are among the first `stop` of `key`. One pass
        over `key`."""
        fitting = (ghost for ghost in self._ghosts if ghost.namespace == namespace and ghost.length <= stop)
        running, done, found = blake2b(digest_size=_DIGEST_BYTES), 0, None
        for ghost in sorted(fitting, key=lambda ghost: ghost.length):
            running.update(key[done * WIDTH : ghost.length * WIDTH])
            done = ghost.length
            if running.digest() == ghost.digest:
                found = ghost
        return found

    def clear(self) -> None:
        """Forget them."""
        self._ghosts.clear()
