"""The state of a row after some of its tokens, as everyone but the engine that made it sees it: opaque."""

from __future__ import annotations

from typing import Protocol


class Snapshot(Protocol):
    """Made by an engine, kept by the cache, given back to the engine to begin a row with.

    Immutable: rows begun from it copy what they change. Touched only on the engine thread.
    """

    @property
    def length(self) -> int:
        """Leading tokens whose state it holds."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes it keeps alive."""
        ...

    @property
    def trimmable(self) -> bool:
        """Whether a row can begin with fewer tokens than `length`; recurrent and wrapped sliding caches cannot."""
        ...
