"""What the stations need to know of a tokenizer. Implementations live in `prompt` and in the fake engine."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Vocabulary(Protocol):
    """Token ids to bytes. Safe to call from any thread; never mutates."""

    @property
    def size(self) -> int:
        """Number of ids."""
        ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Ids that end an answer (EOS, end of turn, …)."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes this id adds to the text, special tokens spelled out; b'' for an id outside the vocabulary."""
        ...

    def is_special(self, token: int) -> bool:
        """Whether the id is a control token, whose text never belongs to an answer."""
        ...

    def piece(self, token: int) -> str:
        """The id's spelling in the vocabulary (e.g. 'ĠParis', '▁Paris', '<0x0A>')."""
        ...


class Tokenizer(Vocabulary, Protocol):
    """A vocabulary that also encodes."""

    @property
    def bos_token(self) -> str:
        """Text of BOS, '' when the vocabulary has none."""
        ...

    @property
    def eos_token(self) -> str:
        """Text of EOS, '' when the vocabulary has none."""
        ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`. `add_special` adds BOS (and what else the vocabulary adds by itself); `parse_special`
        turns the text of special tokens into their ids instead of plain text."""
        ...


class GgufVocabulary(Struct, frozen=True, kw_only=True):
    """The tokenizer section of a GGUF header, as data (key names of the GGUF specification, without prefix).

    `model` is gpt2, llama, bert, …; `pre` names the pre-tokenizer; `types` are 1 normal, 2 unknown, 3 control,
    4 user defined, 5 unused, 6 byte; `merges` 'left right'; `scores` for SentencePiece vocabularies.
    """

    model: str
    pre: str
    tokens: list[str]
    types: list[int]
    merges: list[str]
    scores: list[float]
    bos_id: int | None = None
    eos_id: int | None = None
    eot_id: int | None = None
    unk_id: int | None = None
    pad_id: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    add_space_prefix: bool | None = None
