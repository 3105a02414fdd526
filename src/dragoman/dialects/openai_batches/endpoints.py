"""The endpoint table of the Batch API."""

from __future__ import annotations

from dragoman.core.errors import StorageFull
from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_batches.read import read_cancel, read_create, read_list, read_lookup
from dragoman.dialects.openai_batches.schema import BatchBody, BatchesQuery, BatchObject
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error
from dragoman.dialects.openai_listing import Listing

_ONE = "/v1/batches/{id}"

DIALECT = Dialect(
    name="openai_batches",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/batches",
            summary="Start a batch (OpenAI).",
            read=read_create,
            body=BatchBody,
            answer=BatchObject,
            errors=(StorageFull,),
        ),
        Endpoint(
            method="GET",
            path="/v1/batches",
            summary="List the batches (OpenAI).",
            read=read_list,
            query=BatchesQuery,
            answer=Listing[BatchObject],
        ),
        Endpoint(method="GET", path=_ONE, summary="Show a batch (OpenAI).", read=read_lookup, answer=BatchObject),
        Endpoint(
            method="POST",
            path=f"{_ONE}/cancel",
            summary="Cancel a batch (OpenAI).",
            read=read_cancel,
            answer=BatchObject,
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/batches",),
)
