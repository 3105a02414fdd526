"""The OpenAI error envelope, shared by the OpenAI folders. Knows no endpoint and no stream framing."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import (
    ContextLengthExceeded,
    DragomanError,
    EngineFailure,
    Forbidden,
    NotSupported,
    Overloaded,
    Unavailable,
)
from dragoman.dialects.base import ErrorReply

_TYPES: tuple[tuple[type[DragomanError], str], ...] = (
    (Forbidden, "permission_error"),
    (Overloaded, "rate_limit_error"),
    (Unavailable, "service_unavailable_error"),
    (NotSupported, "not_supported_error"),
    (EngineFailure, "server_error"),
)


class ErrorObject(msgspec.Struct, frozen=True):
    """The inner object of the envelope; `param` is the dotted wire path of the offending field."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """What an OpenAI client finds in an error body and in the error event of a stream."""

    error: ErrorObject


def openai_error(error: DragomanError, request_id: str) -> ErrorReply:
    """`error` as an HTTP reply. The request id travels in a header on this wire, so the body does not repeat it."""
    return ErrorReply(error.status, error_body(error))


def error_body(error: DragomanError) -> bytes:
    """The envelope as JSON; also the payload of an error event after the headers were sent."""
    return msgspec.json.encode(ErrorEnvelope(ErrorObject(_message(error), _type(error), error.field, error.code)))


def _type(error: DragomanError) -> str:
    for kind, name in _TYPES:
        if isinstance(error, kind):
            return name
    return "invalid_request_error" if error.status < 500 else "server_error"


def _message(error: DragomanError) -> str:
    # Agents recognise an overflow by the words "maximum context length is N tokens" and then compact their history.
    if isinstance(error, ContextLengthExceeded):
        said = (
            f"This model's maximum context length is {error.n_ctx} tokens, but the prompt has {error.n_prompt} tokens."
        )
        return f"{said} {error.remedy}" if error.remedy else said
    return error.sentence
