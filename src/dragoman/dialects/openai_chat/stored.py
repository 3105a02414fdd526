"""Stored chat completions, of which this server keeps none: `store` is accepted, and what it promises is not there.

Responses are kept; see their wire.
"""

from __future__ import annotations

import msgspec

from dragoman.core.errors import NotFound
from dragoman.dialects.base import StaticCall, WireRequest
from dragoman.dialects.openai_chat.write import ChatCompletion


class CompletionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of stored completions."""

    object: str = "list"
    data: list[ChatCompletion] = []
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


def read_list(wire: WireRequest) -> StaticCall:
    """GET /v1/chat/completions."""
    return StaticCall(body=msgspec.json.encode(CompletionList()))


def read_stored(wire: WireRequest) -> StaticCall:
    """Any route of one stored completion. Raises NotFound."""
    raise NotFound(
        f"There is no stored chat completion '{wire.params['completion_id'][:100]}': this server keeps none.",
        field="completion_id",
        remedy="Responses are kept.",
    )
