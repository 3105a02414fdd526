"""The endpoint table of Responses."""

from __future__ import annotations

from dragoman.core.errors import StorageFull
from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error
from dragoman.dialects.openai_responses.eventshape import ResponseStreamEvent
from dragoman.dialects.openai_responses.read import read_count, read_response
from dragoman.dialects.openai_responses.schema import CountInput, CreateResponse
from dragoman.dialects.openai_responses.shape import (
    InputTokens,
    ItemPage,
    ItemsQuery,
    ResponseDeletion,
    ResponseObject,
    RetrieveQuery,
)
from dragoman.dialects.openai_responses.stored import (
    read_cancel,
    read_compact,
    read_delete,
    read_input_items,
    read_retrieve,
)

_ONE = "/v1/responses/{response_id}"

DIALECT = Dialect(
    name="openai_responses",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/responses",
            summary="Create a response (OpenAI).",
            read=read_response,
            body=CreateResponse,
            answer=ResponseObject,
            frame=ResponseStreamEvent,
            errors=(StorageFull,),
        ),
        Endpoint(
            method="POST",
            path="/responses",
            summary="Create a response (OpenAI), for base URLs without /v1.",
            read=read_response,
            body=CreateResponse,
            answer=ResponseObject,
            frame=ResponseStreamEvent,
            errors=(StorageFull,),
        ),
        *(
            Endpoint(
                method="POST",
                path=f"{prefix}/responses/input_tokens",
                summary="Count the prompt tokens of a response (OpenAI).",
                read=read_count,
                body=CountInput,
                answer=InputTokens,
            )
            for prefix in ("/v1", "")
        ),
        Endpoint(
            method="POST",
            path="/v1/responses/compact",
            summary="Not served here: compacting a conversation (OpenAI).",
            read=read_compact,
        ),
        Endpoint(
            method="GET",
            path=_ONE,
            summary="A stored response, whole or streamed (OpenAI).",
            read=read_retrieve,
            query=RetrieveQuery,
            answer=ResponseObject,
            frame=ResponseStreamEvent,
        ),
        Endpoint(
            method="DELETE",
            path=_ONE,
            summary="Forget a stored response (OpenAI).",
            read=read_delete,
            answer=ResponseDeletion,
        ),
        Endpoint(
            method="POST",
            path=f"{_ONE}/cancel",
            summary="Stop a background response (OpenAI).",
            read=read_cancel,
            answer=ResponseObject,
        ),
        Endpoint(
            method="GET",
            path=f"{_ONE}/input_items",
            summary="The input items of a stored response (OpenAI).",
            read=read_input_items,
            query=ItemsQuery,
            answer=ItemPage,
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/responses", "/responses"),
)
