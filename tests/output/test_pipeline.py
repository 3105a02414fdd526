import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import EngineFailure
from dragoman.core.events import (
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    PromptProgress,
    Started,
)
from dragoman.core.exchange import EngineFinish, Progress, TokenChunk
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.ids import new_id
from dragoman.core.usage import Timings, Usage
from dragoman.output.pipeline import ReplyPipeline
from tests.output.corpus import CORPUS, OSLO, ROME, Output, call
from tests.output.fakes import (
    EOS,
    HERMES,
    LOOK,
    PLAIN,
    SAVE,
    FakeVocabulary,
    Reply,
    chunks_for,
    cut_bytes,
    pipeline_for,
    run,
)

TOOLS = (LOOK, SAVE)
STOPS = ("STOP", "Hi", "\n\n", "d", "```", "</tool_call>")


def deltas(reply: Reply) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(event.index, event.text, event.tokens) for event in reply.events if isinstance(event, PartDelta)]


def check_order(events: tuple[Event, ...]) -> None:
    """Started first, parts numbered and never interleaved, Finished last and once."""
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Started | Finished) for event in events) == 2
    index, is_open = -1, False
    for event in events:
        if isinstance(event, PartStart):
            assert not is_open
            assert event.index == index + 1
            index, is_open = event.index, True
        elif isinstance(event, PartEnd):
            assert is_open
            assert event.index == index
            is_open = False
        elif isinstance(event, PartDelta):
            assert event.index == (index if is_open else -1)
            assert is_open or event.text == ""
            assert event.text or event.tokens or event.index >= 0
    assert not is_open


def check_tokens(reply: Reply, count: int) -> None:
    """Every fed id in exactly one delta, in order, and counted."""
    ids = [token for event in reply.events if isinstance(event, PartDelta) for token in event.tokens]
    assert ids == [*range(1, count + 1), EOS][: len(ids)]
    assert reply.choice.usage.completion_tokens == len(ids) == reply.fed
    assert list(reply.choice.tokens) == ids


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CORPUS),
    st.lists(st.integers(0, 2000), max_size=12),
    st.sampled_from(list(EngineFinish)[:3]),
    st.lists(st.sampled_from(STOPS), max_size=3),
    st.integers(0, 400),
    st.booleans(),
)
def test_any_byte_split_gives_the_same_answer(
    output: Output, places: list[int], finish: EngineFinish, stop: list[str], end: int, parallel: bool
) -> None:
    wrote = output.wrote.encode()
    wrote = wrote[:end] if finish is not EngineFinish.EOS else wrote
    replies = [
        run(
            pieces,
            finish,
            tools=TOOLS,
            stop=tuple(stop),
            thinking_open=output.thinking_open,
            parallel_tool_calls=parallel,
        )
        for pieces in ([wrote] if wrote else [], cut_bytes(wrote, places), cut_bytes(wrote, range(len(wrote))))
    ]
    for reply in replies:
        check_order(reply.events)
        assert reply.choice.parts == replies[0].choice.parts
        assert reply.choice.finish == replies[0].choice.finish
    check_tokens(replies[1], len(cut_bytes(wrote, places)))
    check_tokens(replies[2], len(wrote))


@pytest.mark.parametrize("output", CORPUS, ids=lambda output: output.name)
def test_the_corpus_comes_out_as_meant(output: Output) -> None:
    reply = run(list(output.wrote), tools=TOOLS, thinking_open=output.thinking_open)
    assert reply.parts == output.parts
    calls = [part for part in output.parts if part[0] == "tool_call"]
    complete = [part for part in calls if part[2].endswith("}")]
    assert reply.choice.finish == Finish(FinishReason.TOOL_CALLS if complete else FinishReason.EOS)


def test_plain_answer_event_by_event() -> None:
    reply = run(["Hel", "lo"], format=PLAIN)
    assert list(reply.events) == [
        Started(0, 7, 3),
        PartStart(0, 0, "text"),
        PartDelta(0, 0, "Hel", (1,)),
        PartDelta(0, 0, "lo", (2,)),
        PartDelta(0, 0, "", (EOS,)),
        PartEnd(0, 0),
        Finished(0, Finish(FinishReason.EOS), Usage(7, 3, 3, 0), Timings(5.0, 9.0, 0.0), 0),
    ]


def test_several_tokens_in_one_chunk_are_one_delta_each() -> None:
    pipeline = pipeline_for(["a", "b"], format=PLAIN)
    events = pipeline.feed(TokenChunk(tokens=(1, 2, EOS), started=0, finish=EngineFinish.EOS))
    assert [event.tokens for event in events if isinstance(event, PartDelta)] == [(1,), (2,), (EOS,)]


def test_nothing_sampled_and_nothing_said() -> None:
    reply = run([], EngineFinish.LENGTH)
    assert [type(event) for event in reply.events] == [Started, Finished]
    assert reply.choice.finish == Finish(FinishReason.LENGTH)


def test_only_the_end_token() -> None:
    reply = run([])
    assert deltas(reply) == [(-1, "", (EOS,))]
    assert reply.choice.parts == ()


def test_an_end_token_with_text_of_its_own_stays_silent() -> None:
    pipeline = pipeline_for(["Hi", "."], format=PLAIN)
    pipeline.feed(TokenChunk(tokens=(1,), started=0))
    events = pipeline.feed(TokenChunk(tokens=(2,), finish=EngineFinish.EOS))
    assert events[0] == PartDelta(0, 0, "", (2,))
    assert isinstance(events[-1], Finished)


def test_ids_keep_their_order_when_the_answer_ends_inside_a_character() -> None:
    reply = run(["a", b"\xf0\x9f"], format=PLAIN)
    assert deltas(reply) == [(0, "a", (1,)), (0, "\ufffd", (2,)), (0, "", (EOS,))]


def test_a_token_that_ends_one_character_and_begins_another_waits_with_the_second() -> None:
    reply = run([b"\xc3", b"\xa9\xc3", b"\xa8"], format=PLAIN)
    assert deltas(reply)[:2] == [(0, "é", (1,)), (0, "è", (2, 3))]
    assert reply.choice.tokens == (1, 2, 3, EOS)


def test_a_stop_matched_while_a_token_waits_still_accounts_for_it() -> None:
    reply = run([b"\xc3", b"\xa9\xc3", b"\xa8"], format=PLAIN, stop=("é",))
    assert reply.fed == 2
    assert reply.choice.tokens == (1, 2)
    assert reply.choice.usage.completion_tokens == 2
    assert reply.choice.finish == Finish(FinishReason.STOP, "é")


def test_markup_tokens_come_with_no_part_or_with_the_open_one() -> None:
    reply = run(["<think>", "a", "</think>", "\n", "Hi"], special=[1, 3])
    assert deltas(reply) == [
        (-1, "", (1,)),
        (0, "a", (2,)),
        (-1, "", (3,)),
        (-1, "", (4,)),
        (1, "Hi", (5,)),
        (1, "", (EOS,)),
    ]
    assert reply.choice.usage.reasoning_tokens == 3


def test_control_tokens_inside_the_answer_are_silent() -> None:
    reply = run(["a", "<|im_start|>", "b"], special=[2], format=PLAIN)
    assert deltas(reply)[1] == (0, "", (2,))
    assert reply.parts == [("text", "", "ab")]


@pytest.mark.parametrize(
    ("pieces", "finish", "thinking_open", "count"),
    [
        (["so", "</think>", "Hi"], EngineFinish.EOS, True, 2),
        (["so", " on"], EngineFinish.LENGTH, True, 2),
        (["so", " on"], EngineFinish.EOS, True, 3),
        (["<th", "ink>", "a", "</think>b"], EngineFinish.EOS, False, 4),
        (["<think>a</think>b"], EngineFinish.EOS, False, 1),
        (["Hi"], EngineFinish.EOS, False, 0),
        ([b"\xf0\x9f", b"\x98\x80"], EngineFinish.LENGTH, True, 2),
    ],
)
def test_reasoning_tokens(pieces: list[str | bytes], finish: EngineFinish, thinking_open: bool, count: int) -> None:
    assert run(pieces, finish, thinking_open=thinking_open).choice.usage.reasoning_tokens == count


def test_stops_do_not_apply_to_thoughts_and_arguments() -> None:
    arguments = '{"place": "STOP"}'
    reply = run(list(f"<think>STOP</think>{call('look', arguments)}aSTOPb"), tools=TOOLS, stop=("STOP",))
    assert reply.parts == [("reasoning", "", "STOP"), ("tool_call", "look", arguments), ("text", "", "a")]
    assert reply.choice.finish == Finish(FinishReason.TOOL_CALLS)


def test_a_stop_does_not_match_across_parts() -> None:
    reply = run(list(f"ST{call('look', '{}')}OP"), tools=TOOLS, stop=("STOP",))
    assert reply.parts == [("text", "", "ST"), ("tool_call", "look", "{}"), ("text", "", "OP")]


def test_a_stop_that_waited_for_an_earlier_one_ends_the_answer_at_its_end() -> None:
    reply = run(["a", "b"], EngineFinish.LENGTH, format=PLAIN, stop=("abc", "b"))
    assert reply.parts == [("text", "", "a")]
    assert reply.choice.finish == Finish(FinishReason.STOP, "b")


def test_an_empty_stop_string_gives_an_empty_answer() -> None:
    reply = run([" Paris", "."], format=PLAIN, stop=("", ""))
    assert reply.fed == 1
    assert reply.choice.parts == ()
    assert reply.choice.finish == Finish(FinishReason.STOP, "")
    assert reply.choice.usage.completion_tokens == 1


def test_after_a_stop_nothing_follows() -> None:
    pipeline = pipeline_for(["a.", "b"], format=PLAIN, stop=(".",))
    events = pipeline.feed(TokenChunk(tokens=(1, 2), started=0))
    assert pipeline.ended
    assert [event.text for event in events if isinstance(event, PartDelta)] == ["a"]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.usage == Usage(7, 1, 0, 0)
    assert finished.timings == Timings(1000.0, 1000.0)
    assert pipeline.feed(TokenChunk(tokens=(2,))) == []
    assert pipeline.fail(EngineFailure("late")) == []


def test_a_stop_in_the_last_chunk_uses_the_engines_report() -> None:
    reply = run(["a", ".b"], EngineFinish.LENGTH, format=PLAIN, stop=(".",))
    assert reply.choice.finish == Finish(FinishReason.STOP, ".")
    assert reply.choice.timings == Timings(5.0, 9.0)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        (EngineFinish.EOS, FinishReason.TOOL_CALLS),
        (EngineFinish.LENGTH, FinishReason.LENGTH),
        (EngineFinish.CONTEXT, FinishReason.CONTEXT),
    ],
)
def test_a_limit_is_told_even_after_a_complete_call(finish: EngineFinish, reason: FinishReason) -> None:
    reply = run(list(call("look", OSLO) + " and"), finish, tools=TOOLS)
    assert reply.choice.finish == Finish(reason)


def test_two_calls_when_one_is_wanted() -> None:
    wrote = f"{call('look', OSLO)}\nAlso:\n{call('look', ROME)} end"
    reply = run(list(wrote), tools=TOOLS, parallel_tool_calls=False)
    assert reply.parts == [("tool_call", "look", OSLO), ("text", "", "Also:")]
    assert reply.choice.finish == Finish(FinishReason.TOOL_CALLS)
    assert reply.fed < len(wrote)


def test_progress_comes_before_the_parts_and_sets_the_clock() -> None:
    pipeline = pipeline_for(["a"], format=PLAIN, stop=("a",))
    events = pipeline.feed(TokenChunk(started=2, progress=Progress(total=7, cached=2, processed=2, ms=0.0)))
    assert events == [Started(0, 7, 2), PromptProgress(0, 7, 2, 2, 0.0)]
    assert pipeline.feed(TokenChunk(progress=Progress(total=7, cached=2, processed=7, ms=500.0))) == [
        PromptProgress(0, 7, 2, 7, 500.0)
    ]
    finished = pipeline.feed(TokenChunk(tokens=(1,)))[-1]
    assert isinstance(finished, Finished)
    assert finished.timings == Timings(1500.0, 1000.0)
    assert finished.usage.cached_tokens == 2


def test_started_takes_the_cached_count_of_progress_when_it_has_no_other() -> None:
    pipeline = pipeline_for([])
    assert pipeline.feed(TokenChunk(progress=Progress(total=7, cached=4, processed=4, ms=0.0)))[0] == Started(0, 7, 4)


def test_failure_ends_the_answer() -> None:
    pipeline = pipeline_for(["a"])
    pipeline.feed(chunks_for(1, EngineFinish.EOS)[0])
    error = EngineFailure("broke")
    assert pipeline.fail(error) == [Failed(0, error)]
    assert pipeline.ended
    assert pipeline.fail(error) == []
    assert pipeline.feed(TokenChunk(tokens=(1,))) == []


def test_an_engine_that_drops_the_request_fails_it() -> None:
    pipeline = pipeline_for(["a"])
    events = pipeline.feed(TokenChunk(tokens=(1,), started=0, finish=EngineFinish.CANCELLED))
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, EngineFailure)
    assert pipeline.ended


def test_call_ids_are_random_by_default() -> None:
    ids: set[str] = set()
    for _ in range(2):
        pipeline = ReplyPipeline(
            choice=3,
            vocabulary=FakeVocabulary([call("look", "{}").encode()]),
            format=HERMES,
            prompt_tokens=1,
            tools=TOOLS,
        )
        ids |= {event.id for event in pipeline.feed(TokenChunk(tokens=(1,))) if isinstance(event, PartStart)}
    assert len(ids) == 2
    assert all(one.startswith("call_") and len(one) == len(new_id("call_")) for one in ids)
