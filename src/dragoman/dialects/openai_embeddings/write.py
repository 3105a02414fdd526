"""Embeddings as OpenAI clients read them, keys in llama-server's order. Computes nothing."""

from __future__ import annotations

import base64
from typing import Literal

import msgspec

from dragoman.core.vectors import Embedded, unpack

_encode = msgspec.json.encode


class EmbeddingUsage(msgspec.Struct, frozen=True):
    """Nothing is generated, so all tokens are of prompts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingObject(msgspec.Struct, frozen=True):
    """One vector."""

    embedding: list[float]
    index: int
    object: Literal["embedding"] = "embedding"


class PackedEmbeddingObject(msgspec.Struct, frozen=True):
    """One vector as base64 of little-endian float32; the last key is llama-server's."""

    embedding: str
    index: int
    object: Literal["embedding"] = "embedding"
    encoding_format: Literal["base64"] = "base64"


class EmbeddingList(msgspec.Struct, frozen=True):
    """The whole body."""

    model: str
    object: Literal["list"]
    usage: EmbeddingUsage
    data: list[EmbeddingObject] | list[PackedEmbeddingObject]


def write_floats(result: Embedded) -> bytes:
    """Vectors as numbers."""
    rows = enumerate(result.vectors)
    return _list(result, [EmbeddingObject(unpack(vectors[0]), index) for index, vectors in rows])


def write_base64(result: Embedded) -> bytes:
    """Vectors as base64, which the SDKs ask for by default."""
    rows = enumerate(result.vectors)
    return _list(
        result, [PackedEmbeddingObject(base64.b64encode(vectors[0]).decode(), index) for index, vectors in rows]
    )


def write_native(result: Embedded) -> bytes:
    """llama-server's own shape: a bare array, each entry with all of its vectors."""
    rows = enumerate(result.vectors)
    return _encode([{"index": index, "embedding": [unpack(vector) for vector in vectors]} for index, vectors in rows])


def _list(result: Embedded, data: list[EmbeddingObject] | list[PackedEmbeddingObject]) -> bytes:
    usage = EmbeddingUsage(result.prompt_tokens, result.prompt_tokens)
    return _encode(EmbeddingList(result.model, "list", usage, data))
