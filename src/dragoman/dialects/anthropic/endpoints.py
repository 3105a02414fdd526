"""The endpoint table of Messages."""

from __future__ import annotations

from dragoman.dialects.anthropic import batch_read as batches
from dragoman.dialects.anthropic.batch_schema import BatchBodyShape, BatchDeletion, MessageBatch
from dragoman.dialects.anthropic.batch_write import LINES_TYPE
from dragoman.dialects.anthropic.errors import ErrorEnvelope, anthropic_error
from dragoman.dialects.anthropic.events import StreamEvent
from dragoman.dialects.anthropic.models import ModelInfo, read_model, read_models, speaks_anthropic
from dragoman.dialects.anthropic.paging import Page, PageQuery
from dragoman.dialects.anthropic.read import read_count, read_messages
from dragoman.dialects.anthropic.schema import CountRequestBody, MessagesRequestBody
from dragoman.dialects.anthropic.write import PING, MessageObject, TokenCount
from dragoman.dialects.base import Dialect, Endpoint, StaticCall, WireRequest

_BATCHES = "/v1/messages/batches"
_BATCH = f"{_BATCHES}/{{id}}"


def read_root(wire: WireRequest) -> StaticCall:
    """GET and HEAD of the root: Claude Code asks whether anybody answers before it sends a message."""
    return StaticCall(body=b'{"status":"ok"}')


DIALECT = Dialect(
    name="anthropic",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/messages",
            summary="Create a message (Anthropic).",
            read=read_messages,
            body=MessagesRequestBody,
            answer=MessageObject,
            frame=StreamEvent,
        ),
        Endpoint(
            method="POST",
            path="/v1/messages/count_tokens",
            summary="Count the tokens of a message (Anthropic).",
            read=read_count,
            body=CountRequestBody,
            answer=TokenCount,
        ),
        Endpoint(
            method="POST",
            path=_BATCHES,
            summary="Start a batch of messages (Anthropic).",
            read=batches.read_create,
            body=BatchBodyShape,
            answer=MessageBatch,
        ),
        Endpoint(
            method="GET",
            path=_BATCHES,
            summary="List the batches of messages (Anthropic).",
            read=batches.read_list,
            query=PageQuery,
            answer=Page[MessageBatch],
        ),
        Endpoint(
            method="GET",
            path=_BATCH,
            summary="Show a batch of messages (Anthropic).",
            read=batches.read_lookup,
            answer=MessageBatch,
        ),
        Endpoint(
            method="DELETE",
            path=_BATCH,
            summary="Delete a batch of messages (Anthropic).",
            read=batches.read_delete,
            answer=BatchDeletion,
        ),
        Endpoint(
            method="GET",
            path=f"{_BATCH}/results",
            summary="Fetch the results of a batch of messages (Anthropic).",
            read=batches.read_results,
            content_type=LINES_TYPE,
        ),
        Endpoint(
            method="POST",
            path=f"{_BATCH}/cancel",
            summary="Cancel a batch of messages (Anthropic).",
            read=batches.read_cancel,
            answer=MessageBatch,
        ),
        Endpoint(
            method="GET",
            path="/v1/models",
            summary="List the models (Anthropic).",
            read=read_models,
            query=PageQuery,
            answer=Page[ModelInfo],
            when=speaks_anthropic,
        ),
        Endpoint(
            method="GET",
            path="/v1/models/{id:path}",
            summary="Show a model (Anthropic).",
            read=read_model,
            answer=ModelInfo,
            when=speaks_anthropic,
        ),
        Endpoint(method="HEAD", path="/", summary="Tell that the server is there.", read=read_root, public=True),
        Endpoint(method="GET", path="/", summary="Tell that the server is there.", read=read_root, public=True),
    ),
    error=anthropic_error,
    error_body=ErrorEnvelope,
    ping=PING,
    prefixes=("/v1/messages",),
    request_id_header="request-id",
)
