"""The endpoint table of Completions."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_completions.read import read_completion
from dragoman.dialects.openai_completions.schema import CompletionRequest
from dragoman.dialects.openai_errors import openai_error

DIALECT = Dialect(
    name="openai_completions",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/completions",
            summary="Continue a text (OpenAI).",
            read=read_completion,
            body=CompletionRequest,
        ),
    ),
    error=openai_error,
    prefixes=("/v1/completions",),
)
