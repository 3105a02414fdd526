"""Texts in the tokens of one vocabulary, as far as a grammar must know: special tokens are not text to it, so a marker
that is one is written by its id. Knows no family."""

from __future__ import annotations

import re

from dragoman.core.vocabulary import Vocabulary
from dragoman.grammar import lark
from dragoman.grammar.lark import Rules

FREE = "/(?s:.*)/"


class Speller:
    """Spells literals with the special tokens of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.size = vocabulary.size
        self._ids: dict[str, int] = {}
        for token in range(vocabulary.size):
            if vocabulary.is_special(token) or token in vocabulary.stop_tokens:
                text = vocabulary.token_bytes(token).decode("utf-8", "replace")
                if text:
                    self._ids.setdefault(text, token)
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._special = re.compile("|".join(re.escape(text) for text in longest_first)) if longest_first else None
        self._stops = vocabulary.stop_tokens

    def pieces(self, text: str) -> list[str | int]:
        """Plain text and ids of special tokens, in order."""
        pieces: list[str | int] = []
        at = 0
        for match in self._special.finditer(text) if self._special else ():
            if match.start() > at:
                pieces.append(text[at : match.start()])
            pieces.append(self._ids[match[0]])
            at = match.end()
        return [*pieces, text[at:]] if at < len(text) else pieces

    def literal(self, text: str) -> str:
        """An expression for exactly this text, '' for none."""
        return _spelled(self.pieces(text))

    def until(self, rules: Rules, stem: str, text: str) -> str:
        """An expression for any text up to and with the first `text`."""
        first, *rest = self.pieces(text)
        if isinstance(first, int):
            begin = f"{rules.add('FREE', FREE)} {lark.token(first)}"
        else:
            begin = rules.add(stem, f"/(?s:.*){lark.escaped(first)}/", lazy=True)
        return lark.sequence([begin, _spelled(rest)])

    def text_until(self, rules: Rules, text: str) -> str:
        """An expression for any text up to and with `text`, or to its end where that is what `text` is."""
        return self.until(rules, "text", text) if self.closing(text) else rules.add("FREE", FREE)

    def closing(self, text: str) -> str:
        """`literal`, without what ends the answer anyway."""
        pieces = self.pieces(text)
        while pieces and isinstance(pieces[-1], int) and pieces[-1] in self._stops:
            pieces.pop()
        return _spelled(pieces)

    def id_of(self, text: str) -> int | None:
        """The special token of that text."""
        return self._ids.get(text)

    def has_special(self, text: str) -> bool:
        """Whether a special token is in the text."""
        return any(isinstance(piece, int) for piece in self.pieces(text))


def _spelled(pieces: list[str | int]) -> str:
    return " ".join(lark.token(piece) if isinstance(piece, int) else lark.literal(piece) for piece in pieces)
