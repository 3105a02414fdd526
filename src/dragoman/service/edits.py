"""Leaves out of a conversation what its client no longer needs there: old thoughts, old results. Blocking, since tokens
are counted; runs in a worker thread. Knows no wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.edits import AppliedEdit, ContextEdit, ThinkingEdit, ToolUseEdit
from dragoman.core.messages import Message, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput, Request

CLEARED = "[This result was cleared to save context.]"

Measure = Callable[[ChatInput], int]
P = TypeVar("P", bound=Part)


class Edited(Struct, frozen=True):
    """A request after its edits, and those that changed something. `saved` tokens are gone altogether."""

    request: Request
    applied: tuple[AppliedEdit, ...] = ()

    @property
    def saved(self) -> int:
        """Tokens of the prompt that are gone."""
        return sum(applied.tokens for applied in self.applied)


def edited(request: Request, measure: Measure) -> Edited:
    """Apply the request's edits in order. `measure` counts the tokens of a prompt and is asked only where something
    depends on it."""
    chat = request.input
    if not request.edits or not isinstance(chat, ChatInput):
        return Edited(request)
    applied: list[AppliedEdit] = []
    measure = _Ruler(measure)
    for edit in request.edits:
        messages, cleared = _cleared(edit, chat, measure)
        if not cleared:
            continue
        shorter = replace(chat, messages=messages)
        tokens = measure(chat) - measure(shorter)
        if isinstance(edit, ToolUseEdit) and tokens < edit.at_least:
            continue
        applied.append(AppliedEdit(edit, cleared, tokens))
        chat = shorter
    return Edited(replace(request, input=chat), tuple(applied))


class _Ruler:
    """Remembers the last length, which is asked for again."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._chat: ChatInput | None = None
        self._tokens = 0

    def __call__(self, chat: ChatInput) -> int:
        if chat is not self._chat:
            self._chat, self._tokens = chat, self._measure(chat)
        return self._tokens


def _cleared(edit: ContextEdit, chat: ChatInput, measure: Measure) -> tuple[tuple[Message, ...], int]:
    """The messages after one edit, and how many turns or calls it touched."""
    if isinstance(edit, ThinkingEdit):
        return _without_thoughts(chat.messages, edit.keep)
    calls = _parts(chat.messages, ToolCallPart)
    old = _old_calls(edit, calls, {part.call_id for part in _parts(chat.messages, ToolResultPart)})
    if not old or not _triggered(edit, len(calls), chat, measure):
        return chat.messages, 0
    touched = {call.id: edit.inputs is None or call.name in edit.inputs for call in old}
    messages = tuple(
        replace(message, parts=tuple(_without_result(part, touched) for part in message.parts))
        for message in chat.messages
    )
    return (messages, len(old)) if messages != chat.messages else (messages, 0)


def _triggered(edit: ToolUseEdit, calls: int, chat: ChatInput, measure: Measure) -> bool:
    if edit.over_uses is not None:
        return calls > edit.over_uses
    return edit.over_tokens is not None and measure(chat) > edit.over_tokens


def _old_calls(edit: ToolUseEdit, calls: Iterable[ToolCallPart], answered: set[str]) -> list[ToolCallPart]:
    found = [call for call in calls if call.name not in edit.exclude and call.id in answered]
    return found[: max(0, len(found) - edit.keep)]


def _without_result(part: Part, touched: dict[str, bool]) -> Part:
    """`touched` tells of the calls that are cleared whether their arguments go as well."""
    if isinstance(part, ToolResultPart) and part.call_id in touched:
        return replace(part, parts=(TextPart(CLEARED),), is_error=False)
    if isinstance(part, ToolCallPart) and touched.get(part.id):
        return replace(part, arguments="{}")
    return part


def _without_thoughts(messages: Sequence[Message], keep: int) -> tuple[tuple[Message, ...], int]:
    turns = _turn_numbers(messages)
    thinking = sorted({turn for turn, message in zip(turns, messages, strict=True) if _thinks(message)})
    old = set(thinking[: max(0, len(thinking) - keep)])
    kept: list[Message] = []
    for turn, message in zip(turns, messages, strict=True):
        if turn not in old or not _thinks(message):
            kept.append(message)
        elif parts := tuple(part for part in message.parts if not isinstance(part, ReasoningPart)):
            kept.append(replace(message, parts=parts))
    return tuple(kept), len(old)


def _turn_numbers(messages: Sequence[Message]) -> list[int]:
    """For each message how many questions came before it."""
    numbers: list[int] = []
    asked = 0
    for message in messages:
        asked += message.role == "user"
        numbers.append(asked)
    return numbers


def _thinks(message: Message) -> bool:
    return any(isinstance(part, ReasoningPart) for part in message.parts)


def _parts(messages: Iterable[Message], kind: type[P]) -> list[P]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]
