"""The endpoint table of Chat Completions."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_chat.read import read_chat
from dragoman.dialects.openai_chat.schema import ChatCompletionRequest
from dragoman.dialects.openai_errors import openai_error

DIALECT = Dialect(
    name="openai_chat",
    endpoints=tuple(
        Endpoint(
            method="POST",
            path=path,
            summary="Create a chat completion (OpenAI).",
            read=read_chat,
            body=ChatCompletionRequest,
        )
        for path in ("/v1/chat/completions", "/chat/completions")
    ),
    error=openai_error,
    prefixes=("/v1", "/chat"),
)
