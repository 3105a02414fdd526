"""The numbered cases of the fault collection, at the level of this station."""

import json

import pytest

from dragoman.core.events import PartDelta, PartEnd, PartStart
from dragoman.core.exchange import EngineFinish
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.prompt import ReplyFormat
from tests.output.corpus import CLOSERS, FENCED, OSLO, ROME, call
from tests.output.fakes import LOOK, PLAIN, SAVE, Reply, run

TOOLS = (LOOK,)


def texts(reply: Reply) -> list[str]:
    return [event.text for event in reply.events if isinstance(event, PartDelta) and event.text]


def calls(reply: Reply) -> list[tuple[str, str]]:
    return [(part.name, part.text) for part in reply.choice.tool_calls]


def test_case_01_a_call_opens_with_id_and_name_and_no_arguments() -> None:
    reply = run(list(call("look", OSLO)), tools=TOOLS)
    (start,) = [event for event in reply.events if isinstance(event, PartStart)]
    assert (start.kind, start.id, start.name) == ("tool_call", "call_0", "look")
    fragments = texts(reply)
    assert len(fragments) > 1
    assert json.loads("".join(fragments)) == {"place": "Oslo"}


@pytest.mark.parametrize("special", [(), (1, 3)])
def test_case_02_markup_never_reaches_the_text(special: tuple[int, ...]) -> None:
    body = f'\n{{"name": "look", "arguments": {OSLO}}}\n'
    reply = run(["<tool_call>", body, "</tool_call>"], tools=TOOLS, special=special)
    assert reply.parts == [("tool_call", "look", OSLO)]


def test_case_03_the_result_does_not_depend_on_chunk_boundaries() -> None:
    wrote = f"Let me look.\n{call('look', OSLO)}"
    whole = run([wrote], tools=TOOLS).parts
    assert whole == [("text", "", "Let me look."), ("tool_call", "look", OSLO)]
    assert run(list(wrote), tools=TOOLS).parts == whole
    for at in range(1, len(wrote)):
        assert run([wrote[:at], wrote[at:]], tools=TOOLS).parts == whole


def test_case_04_a_call_cut_by_the_limit_is_not_presented_as_complete() -> None:
    pieces = ["<tool_call>", '{"name": "look"', ', "arguments": {', '"place"', ': "Os']
    reply = run(pieces, EngineFinish.LENGTH, tools=TOOLS)
    assert reply.choice.finish == Finish(FinishReason.LENGTH)
    assert reply.parts == [("tool_call", "look", '{"place": "Os')]
    assert isinstance(reply.events[-2], PartEnd)


def test_case_04_a_call_cut_before_it_has_a_name_is_a_cut_answer() -> None:
    reply = run(["So: ", "<tool_call>", '{"na'], EngineFinish.LENGTH, tools=TOOLS)
    assert reply.parts == [("text", "", "So:")]
    assert reply.choice.finish == Finish(FinishReason.LENGTH)


@pytest.mark.parametrize(
    "wrote",
    [call("nope", OSLO), "<tool_call>look(place=Oslo)</tool_call>", '<tool_call>{"name": "look"', "<tool_call>"],
)
def test_case_04_what_cannot_be_a_call_arrives_as_text(wrote: str) -> None:
    reply = run(list(wrote), tools=TOOLS)
    assert reply.parts == [("text", "", wrote)]
    assert reply.choice.finish == Finish(FinishReason.EOS)


def test_case_05_declared_tools_do_not_hold_the_text() -> None:
    words = [f" word{number}" for number in range(50)]
    assert texts(run(words, tools=TOOLS)) == words


def test_case_05_arguments_are_streamed_too() -> None:
    pieces = ["<tool_call>", '{"name": "look", "arguments": {"place": "', *"abcdefgh", '"}}', "</tool_call>"]
    assert texts(run(pieces, tools=TOOLS)) == ['{"place": "', *"abcdefgh", '"}']


def test_case_06_parallel_calls_have_their_own_index_and_id() -> None:
    wrote = f"{call('look', OSLO)}\n{call('look', ROME)}"
    reply = run(list(wrote), tools=TOOLS)
    starts = [event for event in reply.events if isinstance(event, PartStart)]
    assert [(start.index, start.id) for start in starts] == [(0, "call_0"), (1, "call_1")]
    assert calls(reply) == [("look", OSLO), ("look", ROME)]
    alone = run(list(wrote), tools=TOOLS, parallel_tool_calls=False)
    assert calls(alone) == [("look", OSLO)]
    assert alone.choice.finish == Finish(FinishReason.TOOL_CALLS)


def test_case_07_the_reason_tells_calls_from_prose() -> None:
    assert run(list(call("look", OSLO)), tools=TOOLS).choice.finish.reason is FinishReason.TOOL_CALLS
    assert run(["Just", " prose."], tools=TOOLS).choice.finish.reason is FinishReason.EOS
    assert run(["Just", " prose."], EngineFinish.LENGTH, tools=TOOLS).choice.finish.reason is FinishReason.LENGTH


def test_case_10_an_end_marker_in_an_argument_does_not_end_the_call() -> None:
    reply = run(list(call("save", CLOSERS)), tools=(SAVE,))
    assert calls(reply) == [("save", CLOSERS)]


def test_case_10_markup_quoted_in_prose_stays_text() -> None:
    assert run(list(FENCED), tools=TOOLS).parts == [("text", "", FENCED)]


@pytest.mark.parametrize("tools", [(), TOOLS])
def test_case_16_a_thought_cut_by_the_limit_stays_a_thought(tools: tuple[()]) -> None:
    reply = run(["so", " it", " goes", " </th"], EngineFinish.LENGTH, thinking_open=True, tools=tools)
    assert reply.parts == [("reasoning", "", "so it goes")]
    assert reply.choice.finish == Finish(FinishReason.LENGTH)


def test_case_17_tags_do_not_leak_when_implied_or_cut() -> None:
    assert run(["so", "</th", "ink>", "Hi"], thinking_open=True).parts == [("reasoning", "", "so"), ("text", "", "Hi")]
    assert run(["<th", "ink>x</think>Hi"]).parts == [("reasoning", "", "x"), ("text", "", "Hi")]
    assert run(["Hi <think>", " there"]).parts == [("text", "", "Hi <think> there")]


@pytest.mark.parametrize("format", [PLAIN, ReplyFormat(think_open="<think>", think_close="</think>")])
def test_case_18_a_stop_string_across_tokens(format: ReplyFormat) -> None:
    reply = run(["hel", "lo", " wo", "rld"], format=format, stop=("lo wo",))
    assert reply.parts == [("text", "", "hel")]
    assert reply.choice.finish == Finish(FinishReason.STOP, "lo wo")
    assert reply.fed == 3
    assert run(["hello world"], format=format, stop=("world", "lo")).choice.finish.stop_match == "lo"


def test_case_19_characters_are_never_cut() -> None:
    text = "ok😀é한"
    reply = run([bytes([byte]) for byte in text.encode()], format=PLAIN)
    assert texts(reply) == list(text)
    assert reply.choice.usage.completion_tokens == len(text.encode()) + 1
    tokens = [event.tokens for event in reply.events if isinstance(event, PartDelta)]
    assert tokens == [(1,), (2,), (3, 4, 5, 6), (7, 8), (9, 10, 11), (0,)]
    cut = run([bytes([byte]) for byte in text.encode()[:-1]], EngineFinish.LENGTH, format=PLAIN)
    assert texts(cut) == [*"ok😀é", "\ufffd"]


def test_case_40_one_entry_a_content_token() -> None:
    pieces = ["<think>", "a", "</think>", "\n", "He said ", b"\xe2\x80", b"\x9c", "hi", " STO", "P", "!"]
    reply = run(pieces, special=[1, 3], stop=("STOP",), logprobs=True)
    assert b"".join(entry.raw for entry in reply.choice.logprobs) == "He said “hi ".encode()
    assert [entry.id for entry in reply.choice.logprobs] == [5, 6, 7, 8, 9]
    assert all(len(entry.top) == 2 for entry in reply.choice.logprobs)
