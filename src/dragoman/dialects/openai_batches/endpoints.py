"""The endpoint table of the Batch API."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_batches.read import read_cancel, read_create, read_list, read_lookup
from dragoman.dialects.openai_batches.schema import BatchBody
from dragoman.dialects.openai_errors import openai_error

DIALECT = Dialect(
    name="openai_batches",
    endpoints=(
        Endpoint(
            method="POST", path="/v1/batches", summary="Start a batch (OpenAI).", read=read_create, body=BatchBody
        ),
        Endpoint(method="GET", path="/v1/batches", summary="List the batches (OpenAI).", read=read_list),
        Endpoint(method="GET", path="/v1/batches/{id}", summary="Show a batch (OpenAI).", read=read_lookup),
        Endpoint(method="POST", path="/v1/batches/{id}/cancel", summary="Cancel a batch (OpenAI).", read=read_cancel),
    ),
    error=openai_error,
    prefixes=("/v1/batches",),
)
