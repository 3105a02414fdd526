"""What a vocabulary piece of a tokenizer.json stands for. Knows its layout, not its tokens."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from dragoman.prompt.byte_level import byte_of_token, bytes_of_piece, is_byte_token

Spelling = Literal["byte_level", "sentencepiece", "wordpiece", "plain"]


class PieceSpeller:
    """Pieces to bytes, by the decoder tokenizer.json names (the pre-tokenizer where it names none)."""

    def __init__(self, layout: dict[str, Any]) -> None:
        self._spelling = _spelling(layout)
        self._prefix = _word_prefix(layout)

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


def _spelling(layout: dict[str, Any]) -> Spelling:
    decoder, pre_tokenizer = _text(layout.get("decoder")), _text(layout.get("pre_tokenizer"))
    if '"ByteLevel"' in decoder or '"ByteLevel"' in pre_tokenizer:
        return "byte_level"
    if '"WordPiece"' in decoder or _model(layout).get("type") == "WordPiece":
        return "wordpiece"
    whole = decoder + pre_tokenizer + _text(layout.get("normalizer"))
    if "\u2581" in whole or '"Metaspace"' in whole or '"ByteFallback"' in decoder:
        return "sentencepiece"
    return "plain"


def _word_prefix(layout: dict[str, Any]) -> str:
    return str(_model(layout).get("continuing_subword_prefix") or "##")


def _model(layout: dict[str, Any]) -> dict[str, Any]:
    model: Any = layout.get("model")
    return cast("dict[str, Any]", model) if isinstance(model, dict) else {}


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
