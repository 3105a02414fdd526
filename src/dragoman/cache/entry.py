"""What the cache keeps: a snapshot and the tokens it stands for. Knows neither where it hangs nor when it goes."""

from __future__ import annotations

from msgspec import Struct

from dragoman.cache.base import EntryKind
from dragoman.cache.packed import unpack
from dragoman.core.snapshot import Snapshot


class Entry(Struct, frozen=True, kw_only=True, eq=False):
    """Compared by identity. `key` packed tokens, `length` their number; `serial` grows with each one stored.

    `nbytes` and `trimmable` are those the snapshot gave when it was stored, so that the sums stay right.
    """

    namespace: str
    key: bytes
    snapshot: Snapshot
    kind: EntryKind
    length: int
    nbytes: int
    trimmable: bool
    serial: int

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens it stands for."""
        return unpack(self.key)
