"""Replayed thoughts of a conversation: those signed here are kept, others dropped. Knows no wire and no key file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.core.messages import Message, Part, ReasoningPart
from dragoman.core.request import ChatInput, Request
from dragoman.core.signatures import Signatures

Count = Callable[[int], None]


def verified(request: Request, signatures: Signatures, *, model: str, tenant: str = "") -> tuple[Request, int]:
    """The request with only believable thoughts, and how many were dropped.

    A thought without a signature is the client's own text and passes (Chat's `reasoning_content`); one with a
    signature must have been signed for this model and tenant, and gets back the text its signature carries. Turns that
    had nothing but dropped thoughts go too. Nothing here is an error: a client cannot help what another server signed.
    """
    chat = request.input
    if not isinstance(chat, ChatInput) or not _signed(chat.messages):
        return request, 0
    dropped = 0
    messages: list[Message] = []
    for message in chat.messages:
        parts: list[Part] = []
        for part in message.parts:
            kept = _believed(part, signatures, model, tenant)
            dropped += kept is None
            parts += [] if kept is None else [kept]
        if parts or not message.parts:
            messages.append(msgspec.structs.replace(message, parts=tuple(parts)))
    return msgspec.structs.replace(request, input=msgspec.structs.replace(chat, messages=tuple(messages))), dropped


def _signed(messages: tuple[Message, ...]) -> bool:
    return any(isinstance(part, ReasoningPart) and part.signature for message in messages for part in message.parts)


def _believed(part: Part, signatures: Signatures, model: str, tenant: str) -> Part | None:
    if not isinstance(part, ReasoningPart) or not part.signature:
        return part
    text = signatures.verify(part.signature, model=model, tenant=tenant, text=part.text)
    return None if text is None else ReasoningPart(text, part.signature)
