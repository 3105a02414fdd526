"""Turns an error into a response in a dialect's envelope. Knows no wire's words."""

from __future__ import annotations

import logging

import msgspec

from dragoman.core.errors import AuthenticationFailed, DragomanError, MethodNotAllowed
from dragoman.dialects.base import Dialect, ErrorReply
from dragoman.gateway.reply import Whole

_log = logging.getLogger(__name__)


def refusal(dialect: Dialect, error: DragomanError, request_id: str) -> Whole:
    """The response, with the headers HTTP asks for: Retry-After, Allow, WWW-Authenticate."""
    reply = _envelope(dialect, error, request_id)
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.allowed)
    elif isinstance(error, AuthenticationFailed):
        headers["www-authenticate"] = "Bearer"
    return Whole(status=reply.status, body=reply.body, content_type=dialect.content_type, headers=headers)


def _envelope(dialect: Dialect, error: DragomanError, request_id: str) -> ErrorReply:
    try:
        return dialect.error(error, request_id)
    except Exception:
        _log.exception("the dialect %s cannot write a %s", dialect.name, type(error).__name__)
        body = msgspec.json.encode({"error": {"message": error.sentence, "code": error.code}})
        return ErrorReply(error.status, body)
