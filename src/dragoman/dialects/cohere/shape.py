"""The shapes of Cohere's replies."""

from __future__ import annotations

from msgspec import Struct

from dragoman.dialects.rerank_fields import TextObject


class CohereError(Struct, frozen=True, kw_only=True):
    """An error: one sentence."""

    id: str
    message: str


class RankedDocument(Struct, frozen=True, kw_only=True):
    """One document by its place in the request, with a score of 0 to 1; its text on `return_documents`."""

    index: int
    relevance_score: float
    document: TextObject | None = None


class ApiVersion(Struct, frozen=True, kw_only=True):
    """Which of Cohere's versions this is."""

    version: str


class BilledUnits(Struct, frozen=True, kw_only=True):
    """What Cohere would charge."""

    search_units: int


class TokenCount(Struct, frozen=True, kw_only=True):
    """Tokens read."""

    input_tokens: int


class RerankMeta(Struct, frozen=True, kw_only=True):
    """About the call."""

    api_version: ApiVersion
    billed_units: BilledUnits
    tokens: TokenCount


class CohereRerankAnswer(Struct, frozen=True, kw_only=True):
    """The whole body, the best first."""

    id: str
    results: list[RankedDocument]
    meta: RerankMeta
