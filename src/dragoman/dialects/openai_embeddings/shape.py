"""The shape of an embeddings reply, for the OpenAPI document, where one array may hold vectors of either encoding."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.dialects.openai_embeddings.write import EmbeddingUsage


class EmbeddingEntry(Struct, frozen=True, kw_only=True):
    """One vector: numbers, or base64 of little-endian float32, which says so."""

    embedding: list[float] | str
    index: int
    object: Literal["embedding"]
    encoding_format: Literal["base64"] | None = None


class EmbeddingPage(Struct, frozen=True, kw_only=True):
    """The whole body."""

    model: str
    object: Literal["list"]
    usage: EmbeddingUsage
    data: list[EmbeddingEntry]


class NativeEmbedding(Struct, frozen=True, kw_only=True):
    """One input under llama-server's `content`: all of its vectors."""

    index: int
    embedding: list[list[float]]


EmbeddingsAnswer = EmbeddingPage | list[NativeEmbedding]
