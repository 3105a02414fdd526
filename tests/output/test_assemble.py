import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.answer import AnswerPart, Choice
from dragoman.core.errors import EngineFailure, Overloaded
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartStart,
    PromptProgress,
    Started,
    UsageUpdate,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.usage import Timings, Usage
from dragoman.output.assemble import Assembler, assemble

ENTRY = LogprobEntry(1, "a", b"a", "a", -0.1)


def events_of(choice: int) -> list[Event]:
    usage = Usage(5, 4, 1, 1)
    return [
        Started(choice, 5, 1, "prompt"),
        PromptProgress(choice, 5, 1, 5, 2.0),
        PartDelta(choice, -1, "", (9,)),
        PartStart(choice, 0, "text"),
        PartDelta(choice, 0, "a", (1,)),
        Logprobs(choice, (ENTRY,)),
        UsageUpdate(choice, Usage(5, 2)),
        PartDelta(choice, 0, "b"),
        PartEnd(choice, 0),
        PartStart(choice, 1, "tool_call", "call_x", "look"),
        PartDelta(choice, 1, "{", (2,)),
        PartDelta(choice, 1, "}", (3,)),
        PartEnd(choice, 1),
        Finished(choice, Finish(FinishReason.TOOL_CALLS), usage, Timings(1.0, 2.0, 3.0), 4),
    ]


def choice_of(index: int) -> Choice:
    return Choice(
        index=index,
        parts=(AnswerPart("text", "ab"), AnswerPart("tool_call", "{}", "call_x", "look")),
        finish=Finish(FinishReason.TOOL_CALLS),
        usage=Usage(5, 4, 1, 1),
        tokens=(9, 1, 2, 3),
        logprobs=(ENTRY,),
        timings=Timings(1.0, 2.0, 3.0),
        slot=4,
        prompt_text="prompt",
    )


@given(st.lists(st.integers(0, 2), max_size=60))
def test_choices_fold_alike_however_they_interleave(picks: list[int]) -> None:
    queues = {choice: events_of(choice) for choice in (2, 0, 1)}
    mixed = [queues[pick].pop(0) for pick in picks if queues[pick]]
    mixed += [event for queue in queues.values() for event in queue]
    assert assemble(mixed).choices == (choice_of(0), choice_of(1), choice_of(2))


def test_a_failure_is_raised() -> None:
    error = Overloaded("full")
    with pytest.raises(Overloaded) as raised:
        assemble([*events_of(0), Failed(1, error)])
    assert raised.value is error


def test_an_answer_without_its_end_is_a_failure() -> None:
    assembler = Assembler()
    for event in events_of(0)[:-1]:
        assembler.add(event)
    with pytest.raises(EngineFailure):
        assembler.answer()
    assembler.add(events_of(0)[-1])
    assert assembler.answer().choices == (choice_of(0),)


def test_no_events_are_no_choices() -> None:
    assert assemble([]).choices == ()
