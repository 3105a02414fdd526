"""Snapshots that hold nothing, to be told apart by identity and watched by weak references."""

from __future__ import annotations


class PlainSnapshot:
    """A Snapshot of `length` tokens that claims `nbytes`."""

    def __init__(self, length: int, nbytes: int = 100, *, trimmable: bool = True) -> None:
        self.length = length
        self.nbytes = nbytes
        self.trimmable = trimmable

    def __repr__(self) -> str:
        return f"PlainSnapshot({self.length}, {self.nbytes}, trimmable={self.trimmable})"


def numbers(count: int, start: int = 0) -> tuple[int, ...]:
    """`count` tokens that follow each other."""
    return tuple(range(start, start + count))
