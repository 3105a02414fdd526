"""Cuts special tokens out of text before the rest is tokenised. Knows no template and no GGUF."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

Piece = str | int


class SpecialToken(Struct, frozen=True):
    """A token that is recognised by its text. `always`: also where special tokens are to be read as plain text
    (user-defined tokens, which belong to the text)."""

    id: int
    text: str
    always: bool


class SpecialTokens:
    """Splits text at special tokens the way llama.cpp does: the token with the longest UTF-8 text first, each at its
    leftmost places in what the longer ones have left."""

    def __init__(self, tokens: Iterable[SpecialToken]) -> None:
        ordered = sorted((token for token in tokens if token.text), key=lambda token: -len(token.text.encode()))
        self._ordered = tuple(ordered)
        self._by_start = _by_start(self._ordered)

    def split(self, text: str, *, parse_special: bool) -> list[Piece]:
        """The text as plain pieces (never empty) and special token ids, in order."""
        if not text:
            return []
        pieces: list[Piece] = [text]
        for token in self._present(text):
            if parse_special or token.always:
                pieces = _split_at(pieces, token)
        return pieces

    def _present(self, text: str) -> list[SpecialToken]:
        """Tokens whose text occurs, longest first. Thousands of reserved tokens share a few beginnings, so most are
        ruled out by one search."""
        found = [
            index
            for start, indices in self._by_start
            if start in text
            for index in indices
            if self._ordered[index].text in text
        ]
        return [self._ordered[index] for index in sorted(found)]


def _by_start(ordered: tuple[SpecialToken, ...]) -> list[tuple[str, list[int]]]:
    groups: dict[str, list[int]] = {}
    for index, token in enumerate(ordered):
        groups.setdefault(token.text[:4], []).append(index)
    return list(groups.items())


def _split_at(pieces: list[Piece], token: SpecialToken) -> list[Piece]:
    result: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, int) or token.text not in piece:
            result.append(piece)
            continue
        for index, part in enumerate(piece.split(token.text)):
            if index:
                result.append(token.id)
            if part:
                result.append(part)
    return result
