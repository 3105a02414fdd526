"""The endpoint table of Responses."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import openai_error
from dragoman.dialects.openai_responses.read import read_count, read_response
from dragoman.dialects.openai_responses.schema import CountInput, CreateResponse
from dragoman.dialects.openai_responses.stored import read_cancel, read_delete, read_input_items, read_retrieve

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
        ),
        Endpoint(
            method="POST",
            path="/responses",
            summary="Create a response (OpenAI), for base URLs without /v1.",
            read=read_response,
            body=CreateResponse,
        ),
        Endpoint(
            method="POST",
            path="/v1/responses/input_tokens",
            summary="Count the prompt tokens of a response (OpenAI).",
            read=read_count,
            body=CountInput,
        ),
        Endpoint(method="GET", path=_ONE, summary="A stored response, whole or streamed (OpenAI).", read=read_retrieve),
        Endpoint(method="DELETE", path=_ONE, summary="Forget a stored response (OpenAI).", read=read_delete),
        Endpoint(
            method="POST",
            path=f"{_ONE}/cancel",
            summary="Stop a background response (OpenAI).",
            read=read_cancel,
        ),
        Endpoint(
            method="GET",
            path=f"{_ONE}/input_items",
            summary="The input items of a stored response (OpenAI).",
            read=read_input_items,
        ),
    ),
    error=openai_error,
    prefixes=("/v1/responses", "/responses"),
)
