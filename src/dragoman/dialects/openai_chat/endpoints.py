"""The endpoint table of Chat Completions."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_chat.chunk import ChatCompletionChunk
from dragoman.dialects.openai_chat.read import read_chat
from dragoman.dialects.openai_chat.schema import ChatCompletionRequest
from dragoman.dialects.openai_chat.stored import CompletionList, read_list, read_stored
from dragoman.dialects.openai_chat.write import ChatCompletion
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error

_STORED = "/v1/chat/completions/{completion_id}"

DIALECT = Dialect(
    name="openai_chat",
    endpoints=(
        *(
            Endpoint(
                method="POST",
                path=path,
                summary="Create a chat completion (OpenAI).",
                read=read_chat,
                body=ChatCompletionRequest,
                answer=ChatCompletion,
                frame=ChatCompletionChunk,
            )
            for path in ("/v1/chat/completions", "/chat/completions")
        ),
        Endpoint(
            method="GET",
            path="/v1/chat/completions",
            summary="List stored chat completions (OpenAI): always none.",
            read=read_list,
            answer=CompletionList,
        ),
        Endpoint(method="GET", path=_STORED, summary="Retrieve a stored completion: never found.", read=read_stored),
        Endpoint(method="POST", path=_STORED, summary="Update a stored completion: never found.", read=read_stored),
        Endpoint(method="DELETE", path=_STORED, summary="Delete a stored completion: never found.", read=read_stored),
        Endpoint(
            method="GET",
            path=f"{_STORED}/messages",
            summary="List the messages of a stored completion: never found.",
            read=read_stored,
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1", "/chat"),
)
