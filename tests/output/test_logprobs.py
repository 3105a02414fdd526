from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.core.events import Event, Logprobs, PartDelta
from dragoman.core.exchange import EngineFinish
from dragoman.core.logprobs import LogprobEntry
from tests.output.corpus import CORPUS, OSLO, Output, call
from tests.output.fakes import EOS, LOOK, PLAIN, SAVE, Reply, chosen, cut_bytes, run

TOOLS = (LOOK, SAVE)


def raws(reply: Reply) -> list[tuple[int, bytes]]:
    return [(entry.id, entry.raw) for entry in reply.choice.logprobs]


def check_place(events: tuple[Event, ...]) -> None:
    """Entries stand directly behind the delta that brought their text."""
    for before, event in pairwise(events):
        assert not isinstance(event, Logprobs) or isinstance(before, PartDelta | Logprobs)


@settings(max_examples=150, deadline=None)
@example(next(output for output in CORPUS if output.name == "text between calls"), [], [])
@given(
    st.sampled_from(CORPUS),
    st.lists(st.integers(0, 2000), max_size=30),
    st.lists(st.sampled_from(["STOP", "Hi", "\n\n", "d", "é"]), max_size=2),
)
def test_joined_bytes_of_the_entries_are_the_visible_text(output: Output, places: list[int], stop: list[str]) -> None:
    pieces = cut_bytes(output.wrote.encode(), places)
    reply = run(pieces, logprobs=True, tools=TOOLS, stop=tuple(stop), thinking_open=output.thinking_open)
    assert b"".join(raw for _, raw in raws(reply)) == reply.choice.text_of("text").encode()
    ids = [token for token, _ in raws(reply)]
    assert ids == sorted(set(ids))
    assert EOS not in ids
    for token, raw in raws(reply):
        assert raw
        # A piece that holds a whole call may have text on both sides of it.
        assert raw in pieces[token - 1] or b"tool_call" in pieces[token - 1]
    if max(map(len, pieces)) < len(OSLO):
        check_place(reply.events)


def test_an_entry_follows_the_delta_that_delivered_its_token() -> None:
    reply = run(["a", "b"], format=PLAIN, logprobs=True)
    kinds = [type(event).__name__ for event in reply.events]
    assert kinds == [
        "Started", "PartStart", "PartDelta", "Logprobs", "PartDelta", "Logprobs", "PartDelta", "PartEnd", "Finished"
    ]  # fmt: skip
    top = (LogprobEntry(1, "a", b"a", "piece1", -0.5), LogprobEntry(EOS, "", b"<|end|>", "piece0", -1.5))
    assert reply.choice.logprobs[0] == LogprobEntry(1, "a", b"a", "piece1", chosen(1).chosen.logprob, top)


def test_tokens_inside_a_character_have_an_entry_each_with_their_own_bytes() -> None:
    reply = run([b"\xe2\x80", b"\x9c", b" x"], format=PLAIN, logprobs=True)
    assert [(entry.raw, entry.text) for entry in reply.choice.logprobs] == [
        (b"\xe2\x80", "\ufffd"), (b"\x9c", "\ufffd"), (b" x", " x")
    ]  # fmt: skip
    assert [type(event).__name__ for event in reply.events].count("Logprobs") == 2


def test_an_unfinished_character_keeps_its_bytes() -> None:
    reply = run(["a", b"\xe2\x80"], EngineFinish.LENGTH, format=PLAIN, logprobs=True)
    assert raws(reply) == [(1, b"a"), (2, b"\xe2\x80")]
    assert reply.choice.text_of("text") == "a\ufffd"


def test_a_stop_string_leaves_no_entry_behind_and_cuts_the_token_it_begins_in() -> None:
    reply = run(["hel", "lo", " wo", "rld"], format=PLAIN, stop=("lo wo",), logprobs=True)
    assert raws(reply) == [(1, b"hel")]
    reply = run(["x", "a STO", "P"], format=PLAIN, stop=("STOP",), logprobs=True)
    assert raws(reply) == [(1, b"x"), (2, b"a ")]
    assert reply.choice.logprobs[1].text == "a "


def test_a_stop_inside_a_character_group_cuts_by_bytes() -> None:
    reply = run([b"ab\xf0\x9f", b"\x98\x80", b"c"], format=PLAIN, stop=("😀",), logprobs=True)
    assert raws(reply) == [(1, b"ab")]
    reply = run([b"a\xf0\x9f", b"\x98\x80.c"], format=PLAIN, stop=(".",), logprobs=True)
    assert raws(reply) == [(1, b"a\xf0\x9f"), (2, b"\x98\x80")]


def test_tokens_across_character_borders_are_cut_by_bytes_too() -> None:
    reply = run([b"x\xc3", b"\xa9\xc3", b"\xa8 STOP"], format=PLAIN, stop=("STOP",), logprobs=True)
    assert raws(reply) == [(1, b"x\xc3"), (2, b"\xa9\xc3"), (3, b"\xa8 ")]


def test_a_stop_while_the_last_token_is_inside_a_character() -> None:
    reply = run([b"a STOP\xc3", b"\xa9\xf0\x9f", b"\x98\x80"], format=PLAIN, stop=("STOP",), logprobs=True)
    assert reply.fed == 2
    assert raws(reply) == [(1, b"a ")]


def test_held_text_brings_its_entries_when_it_is_released() -> None:
    reply = run(["a", " S", "T", "x"], format=PLAIN, stop=("ST.",), logprobs=True)
    entries = [len(event.entries) for event in reply.events if isinstance(event, Logprobs)]
    assert entries == [1, 3]
    assert b"".join(raw for _, raw in raws(reply)) == b"a STx"


def test_thoughts_and_markup_have_none() -> None:
    pieces = ["<think>", "a", "</think>", "\n\n", "Hi", "\n", *call("look", OSLO), "\nend"]
    reply = run(pieces, tools=TOOLS, logprobs=True)
    assert raws(reply) == [(5, b"Hi"), (len(pieces), b"end")]


def test_control_tokens_have_none_even_inside_a_character() -> None:
    reply = run([b"\xc3", "<|x|>", b"\xa9", "<|x|>", "b"], special=[2, 4], format=PLAIN, logprobs=True)
    assert raws(reply) == [(1, b"\xc3"), (3, b"\xa9"), (5, b"b")]


def test_a_marker_token_shown_as_text_has_its_entry() -> None:
    reply = run(["See ", "<think>", "."], special=[2], logprobs=True)
    assert raws(reply) == [(1, b"See "), (2, b"<think>"), (3, b".")]
    assert reply.choice.logprobs[1].text == "<think>"
