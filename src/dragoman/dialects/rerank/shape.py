"""The shapes of a rerank reply, for the OpenAPI document; a test holds them to what is written."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.dialects.rerank_fields import TextObject


class RankedDocument(Struct, frozen=True, kw_only=True):
    """One document by its place in the request; its text on `return_documents`."""

    index: int
    relevance_score: float
    document: TextObject | None = None


class RerankUsage(Struct, frozen=True, kw_only=True):
    """Tokens read."""

    prompt_tokens: int
    total_tokens: int


class RerankPage(Struct, frozen=True, kw_only=True):
    """Jina's answer, the best first."""

    model: str
    object: Literal["list"]
    usage: RerankUsage
    results: list[RankedDocument]


class RankedText(Struct, frozen=True, kw_only=True):
    """One text in the answer of text-embeddings-inference."""

    index: int
    score: float
    text: str | None = None


RerankAnswer = RerankPage | list[RankedText]
