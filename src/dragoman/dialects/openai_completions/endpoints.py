"""The endpoint table of Completions."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_completions.chunk import CompletionChunk
from dragoman.dialects.openai_completions.read import read_completion
from dragoman.dialects.openai_completions.schema import CompletionRequest
from dragoman.dialects.openai_completions.write import Completion
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error

DIALECT = Dialect(
    name="openai_completions",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/completions",
            summary="Continue a text (OpenAI).",
            read=read_completion,
            body=CompletionRequest,
            answer=Completion,
            frame=CompletionChunk,
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/completions",),
)
