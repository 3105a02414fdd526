"""The endpoint table of Messages."""

from __future__ import annotations

from dragoman.dialects.anthropic.errors import anthropic_error
from dragoman.dialects.anthropic.read import read_count, read_messages
from dragoman.dialects.anthropic.schema import CountRequestBody, MessagesRequestBody
from dragoman.dialects.anthropic.write import PING
from dragoman.dialects.base import Dialect, Endpoint, StaticCall, WireRequest


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
        ),
        Endpoint(
            method="POST",
            path="/v1/messages/count_tokens",
            summary="Count the tokens of a message (Anthropic).",
            read=read_count,
            body=CountRequestBody,
        ),
        Endpoint(method="HEAD", path="/", summary="Tell that the server is there.", read=read_root, public=True),
        Endpoint(method="GET", path="/", summary="Tell that the server is there.", read=read_root, public=True),
    ),
    error=anthropic_error,
    ping=PING,
    prefixes=("/v1/messages",),
    request_id_header="request-id",
)
