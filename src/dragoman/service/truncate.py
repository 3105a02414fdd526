"""Drops the oldest turns of a conversation until it fits the window. Blocking; runs in a worker thread.

Instructions at the head stay, and so does the last question with what was done about it since. Calls and their results
go together, and what is left begins with a question, as templates want it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.core.errors import ContextLengthExceeded
from dragoman.core.messages import Message
from dragoman.core.request import ChatInput, Request
from dragoman.service.models import ServedModel

_ANSWER_SHARE = 8
"""A prompt that has to be cut anyway leaves an eighth of the window for the answer, or what it may have at most."""


def fitted(model: ServedModel, request: Request) -> Request:
    """The request with as many of its last turns as fit. Raises ContextLengthExceeded when not even the last does."""
    chat, window = request.input, model.backend.context_length
    if not isinstance(chat, ChatInput):
        return request
    size = _size(model, chat)
    if size < window:
        return request
    room = window - max(1, min(request.max_tokens or window, window // _ANSWER_SHARE))
    shorter = [_with(chat, messages) for messages in _shortened(chat.messages)]
    low, high = 0, len(shorter)
    while low < high:
        middle = (low + high) // 2
        if _size(model, shorter[middle]) <= room:
            high = middle
        else:
            low = middle + 1
    if low == len(shorter):
        # What is left of it may still fit, with less room for the answer.
        if not shorter or _size(model, shorter[-1]) >= window:
            raise ContextLengthExceeded(size, window, field="input")
        low -= 1
    return msgspec.structs.replace(request, input=shorter[low])


def _size(model: ServedModel, chat: ChatInput) -> int:
    return len(model.builder.build(chat).ids)


def _with(chat: ChatInput, messages: Sequence[Message]) -> ChatInput:
    return msgspec.structs.replace(chat, messages=tuple(messages))


def _shortened(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Ever shorter forms of the conversation: without its first exchange, its first two, …; then, behind the last
    question, without the first round of calls, …."""
    begin = next((at for at, message in enumerate(messages) if not _instructs(message)), len(messages))
    head, rest = tuple(messages[:begin]), tuple(messages[begin:])
    questions = [at for at, message in enumerate(rest) if message.role == "user" and at > 0]
    forms = [(*head, *rest[at:]) for at in questions if not _asked_before(rest, at)]
    last = max((at for at, message in enumerate(rest) if message.role == "user"), default=0)
    question, answers = rest[last : last + 1], rest[last + 1 :]
    rounds = [at for at, message in enumerate(answers) if message.role == "assistant" and at > 0]
    return [*forms, *((*head, *question, *answers[at:]) for at in rounds)]


def _instructs(message: Message) -> bool:
    return message.role in ("system", "developer")


def _asked_before(rest: Sequence[Message], at: int) -> bool:
    """Whether the message before is part of the same question."""
    return rest[at - 1].role == "user"
