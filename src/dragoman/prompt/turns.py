"""A conversation as templates see it: turns of text, calls and results, cleaned of what no template understands.

Knows no template variable and no JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from dragoman.core.errors import InvalidField
from dragoman.core.messages import MediaPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

TurnRole = Literal["system", "developer", "user", "assistant", "tool"]

_BLOCK = "\n\n"
_BILLING_HEADER = "x-anthropic-billing-header:"


class Turn(Struct, frozen=True, kw_only=True):
    """One turn. `texts` are its parts in order; `call_id` and `name` belong to tool results."""

    role: TurnRole
    texts: tuple[str, ...] = ()
    name: str | None = None
    reasoning: str = ""
    calls: tuple[ToolCallPart, ...] = ()
    call_id: str = ""

    @property
    def text(self) -> str:
        """All parts, joined without a separator: the joiner documented for every dialect."""
        return "".join(self.texts)


def read_turns(messages: Sequence[Message]) -> list[Turn]:
    """Turns of the messages. Raises InvalidField for media, naming the message."""
    turns: list[Turn] = []
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        _refuse_media(index, message)
        names.update((part.id, part.name) for part in message.parts if isinstance(part, ToolCallPart))
        turns.extend(_turns_of(message, names))
    return turns


def _refuse_media(index: int, message: Message) -> None:
    for part in message.parts:
        held = part.parts if isinstance(part, ToolResultPart) else (part,)
        for inner in held:
            if isinstance(inner, MediaPart):
                raise InvalidField(
                    f"This model does not take {_plural(inner.kind)}.", field=f"messages[{index}].content"
                )


def _plural(kind: str) -> str:
    return {"audio": "audio", "video": "video"}.get(kind, f"{kind}s")


def _turns_of(message: Message, names: dict[str, str]) -> list[Turn]:
    if message.role in ("system", "developer"):
        return _system_turn(message)
    if message.role == "assistant":
        return [_assistant_turn(message)]
    results = [_result_turn(part, names) for part in message.parts if isinstance(part, ToolResultPart)]
    texts = _texts(message)
    if results and not texts:
        return results
    return [*results, Turn(role=message.role, texts=texts, name=message.name)]


def _texts(message: Message) -> tuple[str, ...]:
    return tuple(part.text for part in message.parts if isinstance(part, TextPart))


def _system_turn(message: Message) -> list[Turn]:
    """Claude Code heads its system prompt with a block that differs in every request and means nothing to a model; it
    would spoil every cached prefix (anthropics/claude-code#68900)."""
    texts = _texts(message)
    kept = tuple(text for text in texts if not text.startswith(_BILLING_HEADER))
    if texts and not kept:
        return []
    return [Turn(role=message.role, texts=kept, name=message.name)]


def _assistant_turn(message: Message) -> Turn:
    return Turn(
        role="assistant",
        texts=_texts(message),
        name=message.name,
        reasoning=_BLOCK.join(part.text for part in message.parts if isinstance(part, ReasoningPart) and part.text),
        calls=tuple(part for part in message.parts if isinstance(part, ToolCallPart)),
    )


def _result_turn(part: ToolResultPart, names: dict[str, str]) -> Turn:
    texts = tuple(inner.text for inner in part.parts if isinstance(inner, TextPart))
    if part.is_error and not "".join(texts).lower().startswith("error"):
        texts = ("Error: ", *texts)
    return Turn(role="tool", texts=texts, name=part.name or names.get(part.call_id), call_id=part.call_id)


def merge_leading_system(turns: Sequence[Turn], *, developer: bool) -> list[Turn]:
    """System and developer turns at the start become one. It is a developer turn where one of them is and the template
    knows that role (`developer`)."""
    count = next((index for index, turn in enumerate(turns) if not is_system(turn)), len(turns))
    leading, rest = turns[:count], list(turns[count:])
    if not leading:
        return rest
    role: TurnRole = "developer" if developer and any(turn.role == "developer" for turn in leading) else "system"
    return [msgspec.structs.replace(joined(leading), role=role), *rest]


def joined(turns: Sequence[Turn]) -> Turn:
    """Turns of one role as one turn; their texts stand apart by an empty line. One turn stays as it is."""
    if len(turns) == 1:
        return turns[0]
    texts = [turn.text for turn in turns if turn.text]
    reasoning = [turn.reasoning for turn in turns if turn.reasoning]
    calls = tuple(call for turn in turns for call in turn.calls)
    first = turns[0]
    return msgspec.structs.replace(first, texts=(_BLOCK.join(texts),), reasoning=_BLOCK.join(reasoning), calls=calls)


def is_system(turn: Turn) -> bool:
    """Whether the turn instructs."""
    return turn.role in ("system", "developer")


def late_system_as(turns: Iterable[Turn], role: Literal["system", "developer", "user"]) -> list[Turn]:
    """System turns after the first turn get that role, at their place."""
    return [
        msgspec.structs.replace(turn, role=role) if index and is_system(turn) else turn
        for index, turn in enumerate(turns)
    ]


def system_into_user(turns: Sequence[Turn]) -> list[Turn]:
    """A leading system turn becomes the head of the first user turn, or a user turn of its own."""
    if not turns or not is_system(turns[0]):
        return list(turns)
    head, rest = msgspec.structs.replace(turns[0], role="user"), list(turns[1:])
    if rest and rest[0].role == "user":
        return [joined([head, rest[0]]), *rest[1:]]
    return [head, *rest]


def merge_same_role(turns: Sequence[Turn]) -> list[Turn]:
    """User turns that follow each other become one, and so do assistant turns."""
    merged: list[Turn] = []
    for turn in turns:
        if merged and turn.role in ("user", "assistant") and merged[-1].role == turn.role:
            merged[-1] = joined([merged[-1], turn])
        else:
            merged.append(turn)
    return merged


def fold_user_into_tool(turns: Sequence[Turn]) -> list[Turn]:
    """User turns after a tool result become the end of that result."""
    folded: list[Turn] = []
    for turn in turns:
        if folded and turn.role == "user" and folded[-1].role == "tool":
            folded[-1] = joined([folded[-1], turn])
        else:
            folded.append(turn)
    return folded
