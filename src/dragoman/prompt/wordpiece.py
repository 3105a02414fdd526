"""WordPiece as llama.cpp reads it from GGUF: words start with U+2581 in the vocabulary. Knows no special token."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_CACHED_WORDS = 65536


class WordPieceEncoder:
    """Lower-cases, strips accents, splits at spaces, punctuation and ideographs, then takes the longest tokens."""

    def __init__(self, tokens: Sequence[str], unknown: int) -> None:
        self._ids = {text: token for token, text in enumerate(tokens)}
        self._longest = max((len(text) for text in tokens), default=0)
        self._unknown = unknown
        self._word = lru_cache(maxsize=_CACHED_WORDS)(self._encode_word)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each piece; a word with a part that is no token becomes one unknown token."""
        return [[token for word in split_words(text) for token in self._word(word)] for text in texts]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        text = "\u2581" + word
        found: list[int] = []
        start = 0
        while start < len(text):
            for end in range(min(len(text), start + self._longest), start, -1):
                token = self._ids.get(text[start:end])
                if token is not None:
                    found.append(token)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(found)


def split_words(text: str) -> list[str]:
    """Normalised words, punctuation and ideographs each alone."""
    words = [""]
    for character in unicodedata.normalize("NFD", text):
        category = unicodedata.category(character)
        if character.isspace():
            words.append("")
        elif _dropped(character, category):
            continue
        elif _stands_alone(character, category):
            words += [character.lower(), ""]
        else:
            words[-1] += character.lower()
    return [word for word in words if word]


def _dropped(character: str, category: str) -> bool:
    return character in "\0\ufffd" or category[0] == "M" or category in {"Cc", "Cf", "Cs", "Co"}


def _stands_alone(character: str, category: str) -> bool:
    code = ord(character)
    symbol = code < 0x7F and category.startswith("S")
    return category.startswith("P") or symbol or any(low <= code <= high for low, high in _IDEOGRAPHS)
