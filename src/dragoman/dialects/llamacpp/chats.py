"""llama-server's routes beside a chat completion: counting its prompt, and ending its thought while it runs."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.core.operations import Counted, CountRequest
from dragoman.core.request import Request
from dragoman.dialects.base import EndThoughtCall, SmallCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_or_empty
from dragoman.dialects.llamacpp.errors import NativeError
from dragoman.dialects.llamacpp.template import chat_input
from dragoman.dialects.llamacpp.tokens import model_name


def read_count(wire: WireRequest) -> SmallCall:
    """POST /v1/chat/completions/input_tokens: the prompt tokens of a chat completion body."""
    body = decode_or_empty(wire.body)
    request = Request(input=chat_input(body), model=model_name(body))
    return SmallCall(request=CountRequest(request), write=_write_count)


def read_control(wire: WireRequest) -> EndThoughtCall:
    """POST /v1/chat/completions/control with `action` reasoning_end: close the thought of a running answer that was
    asked for with `reasoning_control`."""
    body: dict[str, Any] = decode_or_empty(wire.body)
    ident, action = body.get("id"), body.get("action")
    if not isinstance(ident, str) or not ident:
        raise NativeError("missing completion id", field="id")
    if action != "reasoning_end":
        raise NativeError("unknown control action", field="action")
    return EndThoughtCall(id=ident, write=_write_ended)


def _write_count(result: Counted) -> bytes:
    return msgspec.json.encode({"input_tokens": result.prompt_tokens, "object": "response.input_tokens"})


def _write_ended(ended: bool | None) -> bytes:
    if ended:
        return b'{"success":true}'
    why = "no active completion for this id" if ended is None else "the completion is not in a thought it can end"
    return msgspec.json.encode({"success": False, "message": why})
