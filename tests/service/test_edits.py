"""Edits of a conversation: what goes, what stays, and what is told of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.edits import ContextEdit, ThinkingEdit, ToolUseEdit
from dragoman.core.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput, RawInput, Request
from dragoman.service.edits import CLEARED, Edited, edited

LONG = "cold and wet, " * 10


def said(text: str) -> Message:
    return Message("assistant", (TextPart(text),))


def asked(text: str) -> Message:
    return Message("user", (TextPart(text),))


def thought(text: str, *more: TextPart | ToolCallPart) -> Message:
    return Message("assistant", (ReasoningPart(text), *more))


def used(number: int, name: str = "look", result: str = LONG) -> tuple[Message, Message]:
    call = ToolCallPart(f"c{number}", name, '{"place": "Oslo"}')
    return Message("assistant", (call,)), Message(
        "tool", (ToolResultPart(call.id, (TextPart(result),), is_error=True),)
    )


def length(chat: ChatInput) -> int:
    """One token a character."""
    return sum(len(str(part)) for message in chat.messages for part in message.parts)


def apply(messages: tuple[Message, ...], *edits: ContextEdit) -> Edited:
    return edited(Request(input=ChatInput(messages=messages), edits=edits), length)


def messages_of(found: Edited) -> tuple[Message, ...]:
    assert isinstance(found.request.input, ChatInput)
    return found.request.input.messages


def results(found: Edited) -> list[str]:
    parts = [part for message in messages_of(found) for part in message.parts if isinstance(part, ToolResultPart)]
    return [told.text for part in parts for told in part.parts if isinstance(told, TextPart)]


FOUR = (asked("go"), *(message for number in range(4) for message in used(number)), asked("and?"))


def test_a_turn_is_all_up_to_the_next_question() -> None:
    call = ToolCallPart("c", "look", "{}")
    result = Message("tool", (ToolResultPart("c", ()),))
    late = Message("system", (TextPart("mind"),))
    talk = (asked("a"), thought("1", call), result, late, thought("2", TextPart("x")), asked("b"), thought("3", call))
    found = apply(talk, ThinkingEdit(1))
    assert messages_of(found) == (asked("a"), Message("assistant", (call,)), result, late, said("x"), *talk[5:])
    [applied] = found.applied
    assert (applied.edit, applied.cleared) == (ThinkingEdit(1), 1)
    assert applied.tokens == length(ChatInput(messages=talk)) - length(ChatInput(messages=messages_of(found))) > 0
    assert apply(talk, ThinkingEdit(2)).applied == ()


def test_turns_without_thoughts_do_not_count() -> None:
    talk = (asked("a"), thought("1", TextPart("x")), asked("b"), said("y"), asked("c"), thought("2", TextPart("z")))
    assert messages_of(apply(talk, ThinkingEdit(2))) == talk
    assert messages_of(apply(talk, ThinkingEdit(1))) == (*talk[:1], said("x"), *talk[2:])


def test_a_turn_of_thoughts_alone_goes() -> None:
    talk = (asked("a"), thought("1"), asked("b"), thought("2"))
    assert messages_of(apply(talk, ThinkingEdit(1))) == (talk[0], *talk[2:])


def test_old_results_become_a_note() -> None:
    found = apply(FOUR, ToolUseEdit(keep=1, over_uses=3))
    assert results(found) == [CLEARED] * 3 + [LONG]
    assert [applied.cleared for applied in found.applied] == [3]
    cleared = messages_of(found)[2].parts[0]
    assert isinstance(cleared, ToolResultPart)
    assert not cleared.is_error
    assert messages_of(found)[1] == FOUR[1]


def test_triggers() -> None:
    assert apply(FOUR, ToolUseEdit(keep=1, over_uses=4)).applied == ()
    size = length(ChatInput(messages=FOUR))
    assert apply(FOUR, ToolUseEdit(keep=1, over_tokens=size)).applied == ()
    assert apply(FOUR, ToolUseEdit(keep=1, over_tokens=size - 1)).applied
    assert apply(FOUR, ToolUseEdit(keep=4, over_uses=0)).applied == ()


def test_too_little_saved_is_not_done() -> None:
    talk = (asked("go"), *used(1, result="x" * 500), *used(2))
    [applied] = apply(talk, ToolUseEdit(keep=1, over_uses=0)).applied
    assert apply(talk, ToolUseEdit(keep=1, over_uses=0, at_least=applied.tokens)).applied == (
        type(applied)(ToolUseEdit(keep=1, over_uses=0, at_least=applied.tokens), 1, applied.tokens),
    )
    kept = apply(talk, ToolUseEdit(keep=1, over_uses=0, at_least=applied.tokens + 1))
    assert (messages_of(kept), kept.applied) == (talk, ())


def test_tools_that_are_excluded_keep_their_results() -> None:
    talk = (asked("go"), *used(1, "note"), *used(2), *used(3))
    assert results(apply(talk, ToolUseEdit(keep=1, over_uses=0, exclude=("note",)))) == [
        LONG,
        CLEARED,
        LONG,
    ]


def test_arguments_go_where_that_is_asked_for() -> None:
    talk = (asked("go"), *used(1, "note"), *used(2))
    calls = [
        [part.arguments for message in messages_of(found) for part in message.parts if isinstance(part, ToolCallPart)]
        for found in (apply(talk, ToolUseEdit(keep=0, over_uses=0, inputs=inputs)) for inputs in (None, ("note",), ()))
    ]
    full = '{"place": "Oslo"}'
    assert calls == [["{}", "{}"], ["{}", full], [full, full]]


def test_an_unanswered_call_is_left_alone() -> None:
    talk = (asked("go"), used(1)[0])
    assert apply(talk, ToolUseEdit(keep=0, over_uses=0, inputs=None)).applied == ()


def test_edits_follow_each_other() -> None:
    talk = (asked("a"), thought("so " * 50, TextPart("x")), asked("b"), *used(1), *used(2), thought("2"))
    first, second = apply(talk, ThinkingEdit(1), ToolUseEdit(keep=0, over_uses=1)).applied
    assert (first.cleared, second.cleared) == (1, 2)
    found = apply(talk, ThinkingEdit(1), ToolUseEdit(keep=0, over_uses=1))
    assert found.saved == length(ChatInput(messages=talk)) - length(ChatInput(messages=messages_of(found)))


def test_what_is_no_conversation_is_left_alone() -> None:
    request = Request(input=RawInput(("x",)), edits=(ThinkingEdit(1),))
    assert edited(request, lambda chat: 1 // 0) == Edited(request)
    plain = Request(input=ChatInput(messages=FOUR))
    assert edited(plain, lambda chat: 1 // 0) == Edited(plain)


def test_a_note_longer_than_the_results_is_not_put_there() -> None:
    assert apply((asked("go"), *used(1, result="9"), *used(2)), ToolUseEdit(keep=1, over_uses=0)).applied == ()


@given(count=st.integers(0, 6), keep=st.integers(0, 6), over=st.integers(0, 6))
def test_clearing_again_changes_nothing_more(count: int, keep: int, over: int) -> None:
    talk = (asked("go"), *(message for number in range(count) for message in used(number)))
    edit = ToolUseEdit(keep=keep, over_uses=over)
    once = apply(talk, edit)
    assert results(once).count(CLEARED) == (max(0, count - keep) if count > over else 0)
    assert messages_of(apply(messages_of(once), edit)) == messages_of(once)
