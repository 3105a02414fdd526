"""The endpoint table of Embeddings."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_embeddings.read import read_embeddings
from dragoman.dialects.openai_embeddings.schema import EmbeddingsRequest
from dragoman.dialects.openai_embeddings.shape import EmbeddingsAnswer
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error

DIALECT = Dialect(
    name="openai_embeddings",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/embeddings",
            summary="Vectors of texts (OpenAI).",
            read=read_embeddings,
            body=EmbeddingsRequest,
            answer=EmbeddingsAnswer,
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/embeddings",),
)
