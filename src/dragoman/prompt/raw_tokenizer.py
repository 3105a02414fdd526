"""The part of the `tokenizers` library used here, typed. Its own annotations leave collections unnamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tokenizers import AddedToken


class RawEncoding(Protocol):
    """One encoded text."""

    @property
    def ids(self) -> list[int]:
        """Token ids."""
        ...


class RawTokenizer(Protocol):
    """A tokenizer. `encode_batch_fast` frees the interpreter lock, its `encode` does not (measured: a text of 900 kB
    held it for 1.4 s), so everything goes through the former."""

    pre_tokenizer: object

    def encode_batch_fast(self, input: Sequence[str], *, add_special_tokens: bool) -> list[RawEncoding]:
        """Encode texts, without offsets."""
        ...

    def add_special_tokens(self, tokens: list[AddedToken]) -> int:
        """Add special tokens; gives how many are new."""
        ...

    def add_tokens(self, tokens: list[AddedToken]) -> int:
        """Add ordinary added tokens; gives how many are new."""
        ...
