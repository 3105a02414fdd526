"""The Anthropic error envelope. Knows no stream framing."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import ContextLengthExceeded, DragomanError, UnsupportedField
from dragoman.dialects.base import ErrorReply

_TYPES: dict[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    431: "request_too_large",
    # Anthropic says 529; 503 is what proxies and SDKs retry, so the status stays and the type tells the reason.
    503: "overloaded_error",
}


class ThreadsUnsupported(UnsupportedField):
    """A conversation was to be kept here. The SDK sends the whole of it instead when it is told so in these words."""

    code = "thread_unsupported_request"

    def __init__(self) -> None:
        super().__init__("thread: this server keeps no conversations.", field="thread", remedy="Send all of it.")


class ErrorDetails(msgspec.Struct, frozen=True):
    """What a program makes of an error: its kind, and what is not supported."""

    error_code: str
    unsupported: list[str]


class ErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inner object of the envelope."""

    type: str
    message: str
    details: ErrorDetails | None = None


class ErrorEnvelope(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """What an Anthropic client finds in an error body and in the error event of a stream."""

    error: ErrorObject
    request_id: str


def anthropic_error(error: DragomanError, request_id: str) -> ErrorReply:
    """`error` as an HTTP reply."""
    return ErrorReply(error.status, error_body(error, request_id))


def error_body(error: DragomanError, request_id: str) -> bytes:
    """The envelope as JSON; also the payload of an error event after the headers were sent."""
    told = ErrorObject(_type(error), _message(error), _details(error))
    return msgspec.json.encode(ErrorEnvelope(told, request_id))


def _details(error: DragomanError) -> ErrorDetails | None:
    return ErrorDetails(error.code, ["thread"]) if isinstance(error, ThreadsUnsupported) else None


def _type(error: DragomanError) -> str:
    return _TYPES.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")


def _message(error: DragomanError) -> str:
    # Claude Code recognises an overflow by the words "prompt is too long" and then compacts its history.
    if isinstance(error, ContextLengthExceeded):
        return f"prompt is too long: {error.n_prompt} tokens > {error.n_ctx} maximum"
    return error.sentence
