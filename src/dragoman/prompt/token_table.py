"""What every tokenizer of ours knows of its ids, as tables. Encodes nothing."""

from __future__ import annotations

from collections.abc import Sequence


class TokenTable:
    """The part of `core.vocabulary.Vocabulary` that is look-up. Immutable after construction."""

    def __init__(
        self, pieces: Sequence[str], spelled: Sequence[bytes], *, stop_tokens: frozenset[int], bos: str, eos: str
    ) -> None:
        self._pieces = tuple(pieces)
        self._bytes = tuple(spelled)
        self._stop_tokens = stop_tokens
        self._bos = bos
        self._eos = eos

    @property
    def size(self) -> int:
        """Number of ids: the highest one plus one."""
        return len(self._pieces)

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The ids that end an answer."""
        return self._stop_tokens

    @property
    def bos_token(self) -> str:
        """Text of BOS, '' when there is none."""
        return self._bos

    @property
    def eos_token(self) -> str:
        """Text of EOS, '' when there is none."""
        return self._eos

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token; b'' for unused ids and ids outside the vocabulary."""
        return self._bytes[token] if 0 <= token < len(self._bytes) else b""

    def piece(self, token: int) -> str:
        """The token's spelling in the vocabulary, '' for ids outside it."""
        return self._pieces[token] if 0 <= token < len(self._pieces) else ""
