"""Embeddings and relevance: what is asked, what crosses seam 1, and what comes back. Knows no wire and no engine."""

from __future__ import annotations

import sys
from array import array
from typing import Literal

from msgspec import Struct

from dragoman.core.request import RawInput

Vector = bytes
"""Packed little-endian float32 numbers: four bytes a dimension, the form OpenAI's base64 has too."""

Pooling = Literal["none", "mean", "cls", "last", "rank"]
"""How token vectors become one: not at all, their mean, that of the first or the last token, or a relevance head."""


class EmbedRequest(Struct, frozen=True, kw_only=True):
    """Texts whose vectors are wanted, one embedding for each input, in order.

    `dimensions` keeps the first so many numbers (Matryoshka), before normalisation. `norm` is llama.cpp's
    `embd_normalize`: -1 as computed, 0 largest number 32760, 1 sum of magnitudes 1, 2 unit length, p > 2 p-norm 1.
    `truncate` None refuses inputs that are too long, 0 cuts them to what the model takes, k to at most k tokens, where
    special tokens at the end stay. `instruction` goes before every text, as Qwen3-Embedding was trained. `pooled`
    refuses models that give one vector per token.
    """

    inputs: tuple[RawInput, ...]
    model: str | None = None
    dimensions: int | None = None
    norm: int = 2
    truncate: int | None = None
    instruction: str | None = None
    pooled: bool = True


class Embedded(Struct, frozen=True, kw_only=True):
    """For each input its vectors: one, or one per token where the model does not pool. `prompt_tokens` counts all
    inputs, as they were after truncation; `model` is the id served."""

    model: str
    vectors: tuple[tuple[Vector, ...], ...]
    prompt_tokens: int


class RerankRequest(Struct, frozen=True, kw_only=True):
    """Documents to be ordered by relevance to `query`, the best `top_n` of them (None: all).

    `truncate` None refuses documents that do not fit beside the query, 0 cuts them to what fits, k to at most k tokens.
    """

    query: str
    documents: tuple[str, ...]
    model: str | None = None
    top_n: int | None = None
    truncate: int | None = None


class Ranked(Struct, frozen=True):
    """A document by its index in the request. `score` is the head's raw number, higher is better."""

    index: int
    score: float


class Reranked(Struct, frozen=True, kw_only=True):
    """Best first; equal scores keep the order of the request. `cosine` tells that an embedding model was used."""

    model: str
    results: tuple[Ranked, ...]
    prompt_tokens: int
    cosine: bool = False


class EmbedWork(Struct, frozen=True, kw_only=True):
    """Work for an engine: token ids of each input, at least one id each, none longer than it says it takes."""

    inputs: tuple[tuple[int, ...], ...]


class RerankWork(Struct, frozen=True, kw_only=True):
    """Work for an engine: how query and document are put together is the model's affair, so they come as text."""

    query: str
    documents: tuple[str, ...]


class Scores(Struct, frozen=True, kw_only=True):
    """Raw scores in the order of the documents, and the tokens of all pairs."""

    scores: tuple[float, ...]
    prompt_tokens: int


def pack(numbers: list[float]) -> Vector:
    """Numbers as a vector."""
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(vector: Vector) -> list[float]:
    """The numbers of a vector."""
    numbers = array("f")
    numbers.frombytes(vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
