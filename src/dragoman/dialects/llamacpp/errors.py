"""llama-server's error envelope and the errors only its wire has. Knows no route and no HTTP library."""

from __future__ import annotations

import re

import msgspec

from dragoman.core.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    DragomanError,
    Forbidden,
    InvalidField,
    InvalidRequest,
    MethodNotAllowed,
    ModelNotFound,
    NotFound,
    NotSupported,
    TokenOutOfRange,
    Unavailable,
    UnsupportedField,
)
from dragoman.dialects.base import ErrorReply

BAD_REQUEST = "invalid_request_error"
SERVER_ERROR = "server_error"

_encode = msgspec.json.encode


class NativeError(InvalidRequest):
    """A refusal in llama-server's exact words: a wrong body is 400, what escapes its parsing block is 500."""

    def __init__(self, message: str, *, status: int = 400, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.status = status
        self.kind = BAD_REQUEST if status == 400 else SERVER_ERROR


class NoSlot(NativeError):
    """Every slot is busy, and the client asked to be told so."""

    def __init__(self) -> None:
        super().__init__("no slot available")
        self.status = 503
        self.kind = "unavailable_error"


def field_error(name: str, problem: str) -> NativeError:
    """A field error; `name` is the spelling the client used."""
    return NativeError(f"Field '{name}': {problem}", field=name)


def not_offered(name: str, detail: str = "") -> UnsupportedField:
    """A known field that would change the answer and is not honoured here; `detail` says which use of it."""
    what = f"Field '{name}'{f' {detail}' if detail else ''} is not supported by this server."
    return UnsupportedField(what, field=name, remedy="Leave it out.")


def wrong_type(wanted: str, value: object) -> str:
    """The JSON library's complaint about a value of the wrong type."""
    return f"[json.exception.type_error.302] type must be {wanted}, but is {type_name(value)}"


def type_name(value: object) -> str:
    """The JSON library's name for the type of a decoded value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def error_reply(error: DragomanError, request_id: str) -> ErrorReply:
    """The envelope. Errors raised before any handler runs list message, type, code; all others code, message, type."""
    early = _early(error)
    if early is not None:
        status, message, kind = early
        return ErrorReply(status, _encode({"error": {"message": message, "type": kind, "code": status}}))
    status, body = _from_handler(error)
    return ErrorReply(status, _encode({"error": body}))


def _early(error: DragomanError) -> tuple[int, str, str] | None:
    if isinstance(error, ModelNotFound):
        return None
    if isinstance(error, NotFound | MethodNotAllowed):
        # A known path with another method is simply not routed there.
        return 404, "File Not Found", "not_found_error"
    if isinstance(error, AuthenticationFailed):
        return 401, "Invalid API Key", "authentication_error"
    if isinstance(error, Unavailable):
        loading = "loading" in error.message.casefold()
        return 503, "Loading model" if loading else error.sentence, "unavailable_error"
    return None


def _from_handler(error: DragomanError) -> tuple[int, dict[str, object]]:
    status, message, kind = error.status, error.sentence, _kind(error)
    extra: dict[str, object] = {}
    if isinstance(error, ContextLengthExceeded):
        message = (
            f"request ({error.n_prompt} tokens) exceeds the available context size ({error.n_ctx} tokens), "
            "try increasing it"
        )
        extra = {"n_prompt_tokens": error.n_prompt, "n_ctx": error.n_ctx}
    elif isinstance(error, TokenOutOfRange):
        status, message, kind = _bad_token(error)
    elif isinstance(error, InvalidField) and error.field and "Field '" not in message:
        message = _constraint_words(error.field) + message
    return status, {"code": status, "message": message, "type": kind, **extra}


def _constraint_words(field: str) -> str:
    """What llama-server says first of a grammar or schema it cannot use; clients look for the words."""
    name = re.split(r"[.\[]", field, maxsplit=1)[0]
    return {
        "grammar": "Failed to initialize samplers: failed to parse grammar: ",
        "json_schema": "Field 'json_schema': ",
        "grammar_triggers": "Field 'grammar_triggers': ",
    }.get(name, "")


def _bad_token(error: TokenOutOfRange) -> tuple[int, str, str]:
    if error.field != "tokens":
        return 400, "Prompt contains invalid tokens", BAD_REQUEST
    index = error.token % 2**64
    message = f"vector::_M_range_check: __n (which is {index}) >= this->size() (which is {error.size})"
    return 500, message, SERVER_ERROR


def _kind(error: DragomanError) -> str:
    if isinstance(error, NativeError):
        return error.kind
    if isinstance(error, ContextLengthExceeded):
        return "exceed_context_size_error"
    if isinstance(error, Forbidden):
        return "permission_error"
    if isinstance(error, NotSupported):
        return "not_supported_error"
    if isinstance(error, ModelNotFound):
        return "not_found_error"
    if error.status == 429:
        return "unavailable_error"
    return BAD_REQUEST if error.status < 500 else SERVER_ERROR


__all__ = [
    "BAD_REQUEST",
    "SERVER_ERROR",
    "NativeError",
    "error_reply",
    "field_error",
    "not_offered",
    "type_name",
    "wrong_type",
]
