"""The endpoint table of Cohere's wire, and its error envelope."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import DragomanError
from dragoman.dialects.base import Dialect, Endpoint, ErrorReply
from dragoman.dialects.cohere.read import read_rerank
from dragoman.dialects.cohere.schema import CohereRerankBody
from dragoman.dialects.cohere.shape import CohereError, CohereRerankAnswer


def error_reply(error: DragomanError, request_id: str) -> ErrorReply:
    """The envelope: one sentence under `message`."""
    return ErrorReply(error.status, msgspec.json.encode(CohereError(id=request_id, message=error.sentence)))


DIALECT = Dialect(
    name="cohere",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v2/rerank",
            summary="Documents by relevance to a query (Cohere).",
            read=read_rerank,
            body=CohereRerankBody,
            answer=CohereRerankAnswer,
        ),
    ),
    error=error_reply,
    error_body=CohereError,
    prefixes=("/v2",),
)
