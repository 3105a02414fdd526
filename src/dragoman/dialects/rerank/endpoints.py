"""The endpoint table of reranking."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error
from dragoman.dialects.rerank.read import read_rerank
from dragoman.dialects.rerank.schema import RerankBody
from dragoman.dialects.rerank.shape import RerankAnswer

DIALECT = Dialect(
    name="rerank",
    endpoints=tuple(
        Endpoint(
            method="POST",
            path=path,
            summary="Documents by relevance to a query (Jina).",
            read=read_rerank,
            body=RerankBody,
            answer=RerankAnswer,
        )
        for path in ("/v1/rerank", "/v1/reranking")
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/rerank", "/v1/reranking"),
)
