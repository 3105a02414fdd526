"""What a vocabulary piece of a tokenizer.json stands for. Knows its layout, not its tokens."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from dragoman.prompt.byte_level import byte_of_token, bytes_of_piece, is_byte_token

Spelling = Literal["byte_level", "sentencepiece", "wordpiece", "plain"]


class Model(Struct, frozen=True):
    """The `model` of a tokenizer.json without its vocabulary, which would cost a quarter second to read twice."""

    type: str | None = None
    continuing_subword_prefix: str | None = None


class Layout(Struct, frozen=True):
    """The parts of a tokenizer.json that say how pieces are spelled."""

    decoder: Any = None
    pre_tokenizer: Any = None
    normalizer: Any = None
    model: Model = field(default_factory=Model)


class PieceSpeller:
    """Pieces to bytes, by the decoder tokenizer.json names (the pre-tokenizer where it names none)."""

    def __init__(self, layout: Layout) -> None:
        self._spelling = _spelling(layout)
        self._prefix = layout.model.continuing_subword_prefix or "##"

    def bytes_of(self, piece: str) -> bytes:
        """The bytes of an ordinary piece. Of a word piece the space before it is part, as in running text."""
        if self._spelling == "byte_level":
            return bytes_of_piece(piece)
        if self._spelling == "sentencepiece":
            return byte_of_token(piece) if is_byte_token(piece) else piece.replace("\u2581", " ").encode()
        if self._spelling == "wordpiece":
            return self._word_piece(piece).encode()
        return piece.encode()

    def _word_piece(self, piece: str) -> str:
        return piece.removeprefix(self._prefix) if piece.startswith(self._prefix) else f" {piece}" if piece else ""


def _spelling(layout: Layout) -> Spelling:
    decoder, pre_tokenizer = _text(layout.decoder), _text(layout.pre_tokenizer)
    if '"ByteLevel"' in decoder or '"ByteLevel"' in pre_tokenizer:
        return "byte_level"
    if '"WordPiece"' in decoder or layout.model.type == "WordPiece":
        return "wordpiece"
    whole = decoder + pre_tokenizer + _text(layout.normalizer)
    if "\u2581" in whole or '"Metaspace"' in whole or '"ByteFallback"' in decoder:
        return "sentencepiece"
    return "plain"


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
