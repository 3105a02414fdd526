"""The state of a scripted row: the tokens it was fed. Knows no row and no script."""

from __future__ import annotations

from msgspec import Struct


class FakeSnapshot(Struct, frozen=True):
    """Implements `core.snapshot.Snapshot`; `nbytes` is what the script says it weighs."""

    tokens: tuple[int, ...]
    nbytes: int
    trimmable: bool

    @property
    def length(self) -> int:
        """Tokens whose state it holds."""
        return len(self.tokens)
