"""Ollama's error envelope: one sentence under `error`. Knows no route."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import AuthenticationFailed, DragomanError, ModelNotFound
from dragoman.dialects.base import ErrorReply


def error_reply(error: DragomanError, request_id: str) -> ErrorReply:
    """The envelope; the official clients show an `error` that is no string as a raw dictionary."""
    return ErrorReply(error.status, error_line(error))


def error_line(error: DragomanError) -> bytes:
    """The body, also the last line of a stream that broke off."""
    return msgspec.json.encode({"error": _sentence(error)})


def _sentence(error: DragomanError) -> str:
    if isinstance(error, ModelNotFound):
        return f"model '{error.model}' not found"
    if isinstance(error, AuthenticationFailed):
        return "unauthorized"
    return error.sentence
