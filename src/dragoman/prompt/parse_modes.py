"""Encodes with special tokens recognised or read as plain text. Knows no vocabulary file."""

from __future__ import annotations

import threading
from typing import cast

from tokenizers import Tokenizer

from dragoman.prompt.raw_tokenizer import RawTokenizer


class ParseModes:
    """Two copies of one tokenizer: the library has one switch for the whole object (`encode_special_tokens`), so
    turning it for a request would change the others running. The second copy is made when it is first needed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._parsing = tokenizer
        self._parsing.encode_special_tokens = False
        self._plain: Tokenizer | None = None
        self._lock = threading.Lock()

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`. Added tokens that are not special are always recognised, as the library does."""
        tokenizer = cast("RawTokenizer", self._parsing if parse_special else self._plain_copy())
        return tokenizer.encode_batch_fast([text], add_special_tokens=add_special)[0].ids

    def _plain_copy(self) -> Tokenizer:
        with self._lock:
            if self._plain is None:
                copy = Tokenizer.from_str(self._parsing.to_str())
                copy.encode_special_tokens = True
                self._plain = copy
            return self._plain
