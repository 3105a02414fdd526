"""What kind each token of a GGUF vocabulary is, and which ones end an answer. Knows no text but token spellings.

The rules are llama.cpp's (build 10622): some spellings are control tokens whatever the file says, since converters
often mark them wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from dragoman.core.vocabulary import GgufVocabulary
from dragoman.prompt.end_of_generation import END_OF_GENERATION, message_ends
from dragoman.prompt.fill_markers import (
    FILL_FILE,
    FILL_MIDDLE,
    FILL_PAD,
    FILL_PREFIX,
    FILL_REPOSITORY,
    FILL_SUFFIX,
)


class TokenKind(Enum):
    """The token types of the GGUF specification."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_ENDING_FILLS = (FILL_PAD, FILL_REPOSITORY, FILL_FILE)
_OTHER_FILLS = (FILL_PREFIX, FILL_SUFFIX, FILL_MIDDLE)
_HARMONY_MARKUP = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


class TokenKinds:
    """The kinds after correction, and the tokens that end an answer."""

    def __init__(self, vocabulary: GgufVocabulary, tokens: Sequence[str]) -> None:
        self._ids = {text: token for token, text in reversed(list(enumerate(tokens)))}
        self._kinds = _declared(vocabulary.types, len(tokens))
        named = (vocabulary.eos_id, vocabulary.eot_id)
        self._ends = {token for token in named if token is not None and 0 <= token < len(tokens)}
        self._mark_fills()
        self._mark_ends()
        self._except_harmony()
        self._except_tool_response()

    @property
    def kinds(self) -> tuple[TokenKind, ...]:
        """The kind of every token, by id."""
        return tuple(self._kinds)

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return frozenset(self._ends)

    def _mark_fills(self) -> None:
        for spellings in (*_ENDING_FILLS, *_OTHER_FILLS):
            token = next((self._ids[text] for text in spellings if text in self._ids), None)
            if token is None:
                continue
            self._kinds[token] = TokenKind.CONTROL
            if spellings in _ENDING_FILLS:
                self._ends.add(token)

    def _mark_ends(self) -> None:
        for text in END_OF_GENERATION & self._ids.keys():
            self._ends.add(self._ids[text])
            self._kinds[self._ids[text]] = TokenKind.CONTROL
        for text in _HARMONY_MARKUP:
            if text in self._ids:
                self._kinds[self._ids[text]] = TokenKind.USER_DEFINED

    def _except_harmony(self) -> None:
        if "<|end|>" in message_ends(text for text in END_OF_GENERATION if self._has_end(text)):
            self._exempt("<|end|>", TokenKind.USER_DEFINED)

    def _except_tool_response(self) -> None:
        """Gemma 4 has `</s>` as ordinary text (HTML strike-through)."""
        if self._has_end("<|tool_response>") and self._has_end("</s>"):
            self._exempt("</s>", TokenKind.NORMAL)

    def _has_end(self, text: str) -> bool:
        return self._ids.get(text, -1) in self._ends

    def _exempt(self, text: str, kind: TokenKind) -> None:
        self._ends.discard(self._ids[text])
        self._kinds[self._ids[text]] = kind


def _declared(types: Sequence[int], size: int) -> list[TokenKind]:
    known = {kind.value: kind for kind in TokenKind}
    kinds = [known.get(value, TokenKind.UNUSED) for value in types[:size]]
    return kinds + [TokenKind.NORMAL] * (size - len(kinds))
