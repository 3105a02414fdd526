"""The bytes of every token, and which tokens llama.cpp withheld. Knows no wire.

llama.cpp streams nothing for a token whose text ends inside a UTF-8 character: its id never appears. The frame that
completes the character tells how many tokens were withheld and carries their text, so the ids can be found again:
they are the tokens whose bytes, one after the other, make that text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence


class Pieces:
    """`pieces[id]` are the bytes a token adds to the text, b'' for control tokens."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._cut: dict[bytes, list[int]] = {}
        for token, piece in enumerate(pieces):
            if piece and not _is_text(piece):
                self._cut.setdefault(piece, []).append(token)

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self._pieces)

    def __getitem__(self, token: int) -> bytes:
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""

    def withheld(self, text: bytes, count: int, last: Sequence[int]) -> tuple[int, ...] | None:
        """The `count` ids before `last` that together spell `text`; None when no tokens do.

        Where several sequences spell it, the one is taken whose newest piece is oldest: byte-pair vocabularies number
        pieces in the order they were learnt, and text is merged in that order.
        """
        ending = b"".join(map(self.__getitem__, last))
        if not text.endswith(ending):
            return None
        found = list(self._splits(text[: len(text) - len(ending)], count))
        return min(found, key=max) if found else None

    def _splits(self, text: bytes, count: int) -> Iterator[tuple[int, ...]]:
        """Every way to spell `text` with `count` tokens none of which is whole text."""
        if count == 0:
            if not text:
                yield ()
            return
        for end in range(1, len(text) - count + 2):
            for token in self._cut.get(text[:end], ()):
                for rest in self._splits(text[end:], count - 1):
                    yield (token, *rest)


class Boundary:
    """Whether text made of pieces ends between two characters. Broken bytes are given up as decoders do."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Sequence[int]) -> bool:
        """Whether the text is at a boundary after `tokens`."""
        for token in tokens:
            self._decoder.decode(self._pieces[token])
        return not self._decoder.getstate()[0]


def _is_text(piece: bytes) -> bool:
    if piece.isascii():
        return True
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
