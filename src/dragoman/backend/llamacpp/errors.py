"""llama.cpp's error answers as errors of core. Knows the native error envelope, nothing of requests."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.errors import (
    ContextLengthExceeded,
    DragomanError,
    EngineFailure,
    InvalidRequest,
    NotSupported,
    Overloaded,
    Unavailable,
)

_RETRY_SECONDS = 5
_WINDOW_FULL = "Context size has been exceeded"
"""llama.cpp's words, as a server error, when no slot can be given another cell."""


class ErrorBody(Struct, frozen=True):
    """The object under `error`."""

    message: str = ""
    type: str = ""
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class _Envelope(Struct, frozen=True):
    error: ErrorBody | str


def error_of(status: int, body: bytes) -> DragomanError:
    """The error behind an answer with a status other than 200."""
    try:
        found = msgspec.json.decode(body, type=_Envelope).error
    except msgspec.MsgspecError:
        found = ErrorBody(message=body[:200].decode("utf-8", "replace"))
    return _mapped(status, found if isinstance(found, ErrorBody) else ErrorBody(message=found))


def error_in_stream(error: Any) -> DragomanError:
    """The error an event of a running stream tells: the engine broke on this request, whatever it calls it, unless all
    slots together have filled a window they share."""
    try:
        found = msgspec.convert(error, ErrorBody)
    except msgspec.ValidationError:
        found = ErrorBody(message=str(error))
    if found.type == "exceed_context_size_error" or _WINDOW_FULL in found.message:
        return Overloaded("The running requests have filled the window they share.", retry_after=_RETRY_SECONDS)
    return EngineFailure(f"llama.cpp failed on this request: {_clause(found)}.")


def _mapped(status: int, error: ErrorBody) -> DragomanError:
    if error.type == "exceed_context_size_error" and error.n_prompt_tokens is not None and error.n_ctx is not None:
        return ContextLengthExceeded(error.n_prompt_tokens, error.n_ctx)
    clause = _clause(error)
    if status == 400:
        return InvalidRequest(f"llama.cpp refused the request: {clause}.")
    if status in (401, 403):
        return EngineFailure("The llama.cpp server refused our API key.", remedy="Configure the right one.")
    if status == 429:
        return Overloaded(f"The llama.cpp server is overloaded: {clause}.", retry_after=_RETRY_SECONDS)
    if status == 501:
        return NotSupported(f"llama.cpp does not support this: {clause}.")
    if status == 503:
        return Unavailable(f"The llama.cpp server is not ready: {clause}.", retry_after=_RETRY_SECONDS)
    return EngineFailure(f"llama.cpp failed on this request: {clause}.")


def _clause(error: ErrorBody) -> str:
    return (error.message or error.type or "it does not say why").strip().rstrip(".")
