"""What the replies of the OpenAI generation wires have in common. Knows no endpoint."""

from __future__ import annotations

import msgspec

from dragoman.dialects.base import Frame, ReplyContext

DONE = Frame(b"[DONE]")


def reply_id(prefix: str, context: ReplyContext) -> str:
    """The reply's id: the request's, so that logs and replies can be matched, behind this wire's own prefix."""
    return prefix + context.request_id.removeprefix("req_")


def chunk_head(context: ReplyContext, ident: str, kind: str) -> bytes:
    """The constant beginning of every chunk, up to and with the opening of `choices`."""
    chunk = {
        "id": ident,
        "object": kind,
        "created": context.created,
        "model": context.card.id,
        "system_fingerprint": context.card.engine_build or None,
    }
    return msgspec.json.encode(chunk)[:-1] + b',"choices":['
