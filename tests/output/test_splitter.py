import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.prompt import ReplyFormat
from dragoman.output.segments import Segment
from dragoman.output.splitter import Splitter
from tests.output.corpus import CORPUS, Output, Parts, call
from tests.output.fakes import HERMES, cut_at, fold

BEGUN = '<tool_call>{"name": "look", "arguments": '
NAMES = frozenset({"look", "save"})
FRAGMENTS = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<", "</", "<tool", "</thi", "\n", "  ", "word", "`", "```",
    '{"name": "look", ', '"arguments": {"place": ', '"Oslo"', "}", "}}",
    '{"arguments": "{}", "name": "save"}', "é😀", ",",
    '{"name": "nope"', "'", "\\", call("look", '{"n": 1}'), " " * 40,
]  # fmt: skip


def split(
    pieces: list[str],
    *,
    cut: bool = False,
    format: ReplyFormat = HERMES,
    names: frozenset[str] = NAMES,
    thinking_open: bool = False,
    prefill: str = "",
) -> list[Segment]:
    splitter = Splitter(format, names, thinking_open=thinking_open, prefill=prefill)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)]
    return segments + splitter.flush(cut=cut)


def parts_of(folded: list[tuple[str, str]]) -> Parts:
    parts: Parts = []
    for kind, text in folded:
        if kind == "call":
            parts.append(("tool_call", text, ""))
        elif kind == "arguments":
            parts[-1] = ("tool_call", parts[-1][1], text)
        elif kind in ("text", "reasoning"):
            parts.append((kind, "", text))
    return parts


def every_cut(text: str) -> list[list[str]]:
    return [[text], list(text), *([text[:at], text[at:]] for at in range(1, len(text)))]


@pytest.mark.parametrize("output", CORPUS, ids=lambda output: output.name)
def test_corpus_is_split_as_meant_under_every_cut(output: Output) -> None:
    for pieces in every_cut(output.wrote):
        assert parts_of(fold(split(pieces, thinking_open=output.thinking_open))) == output.parts


@pytest.mark.parametrize("output", CORPUS, ids=lambda output: output.name)
def test_an_answer_cut_by_a_limit_reads_alike_under_every_cut(output: Output) -> None:
    for end in range(len(output.wrote) + 1):
        shorter = output.wrote[:end]
        whole = fold(split([shorter], cut=True, thinking_open=output.thinking_open))
        assert fold(split(list(shorter), cut=True, thinking_open=output.thinking_open)) == whole
        half = [shorter[: end // 2], shorter[end // 2 :]]
        assert fold(split(half, cut=True, thinking_open=output.thinking_open)) == whole


@pytest.mark.parametrize(
    "output", [output for output in CORPUS if output.parts[-1][0] == "tool_call"], ids=lambda output: output.name
)
def test_a_call_cut_by_a_limit_leaks_no_markup_and_is_not_complete(output: Output) -> None:
    quoted = sum(part[2].count("<") for part in output.parts if part[0] == "text")
    for end in range(len(output.wrote)):
        segments = split([output.wrote[:end]], cut=True, thinking_open=output.thinking_open)
        shown = "".join(segment.text for segment in segments if segment.kind == "text")
        assert shown.count("<") <= quoted
        meant = [part[2] for part in output.parts if part[0] == "tool_call"]
        found = [part[2] for part in parts_of(fold(segments)) if part[0] == "tool_call"]
        complete = len(found) - (1 if segments and segments[-1].kind == "cut" else 0)
        assert found[:complete] == meant[:complete]
        assert all(whole.startswith(arguments) for whole, arguments in zip(meant, found, strict=False))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=14),
    st.lists(st.integers(0, 400), max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_any_mixture_splits_alike_under_any_cut(
    fragments: list[str], places: list[int], cut: bool, thinking_open: bool
) -> None:
    text = "".join(fragments)
    whole = fold(split([text], cut=cut, thinking_open=thinking_open))
    assert fold(split(cut_at(text, places), cut=cut, thinking_open=thinking_open)) == whole
    assert fold(split(list(text), cut=cut, thinking_open=thinking_open)) == whole


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14), st.lists(st.integers(0, 400), max_size=8))
def test_text_pieces_are_slices_of_the_stream_in_order(fragments: list[str], places: list[int]) -> None:
    text = "".join(fragments)
    last = 0
    for segment in split(cut_at(text, places)):
        if segment.kind == "text":
            assert segment.at >= last
            assert text[segment.at : segment.at + len(segment.text)] == segment.text
            last = segment.at + len(segment.text)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=10), st.lists(st.integers(0, 400), max_size=8))
def test_without_tools_and_tags_everything_is_text(fragments: list[str], places: list[int]) -> None:
    text = "".join(fragments)
    segments = split(cut_at(text, places), format=ReplyFormat(tool_family="hermes"), names=frozenset())
    assert fold(segments) == ([("text", text)] if text else [])


def test_plain_text_is_never_held() -> None:
    splitter = Splitter(HERMES, NAMES)
    given_out = [
        "".join(segment.text for segment in splitter.feed(piece)) for piece in ["one", " two,", " <", " five", ".\n"]
    ]
    assert given_out == ["one", " two,", "", " < five", "."]


def test_blanks_in_front_of_a_marker_are_dropped_up_to_the_bound() -> None:
    blanks = "\n" * 100
    for pieces in every_cut("a" + blanks + call("look", "{}")):
        assert fold(split(pieces))[0] == ("text", "a" + "\n" * 36)


def test_arguments_come_in_fragments_once_the_call_is_known() -> None:
    splitter = Splitter(HERMES, NAMES)
    pieces = ["<tool_call>", '{"name": "look", ', '"arguments": {', '"place": "Os', "lo", '"}', "}", "</tool_call>"]
    steps = [[(segment.kind, segment.text) for segment in splitter.feed(piece)] for piece in pieces]
    assert steps == [
        [],
        [],
        [("call", "look"), ("arguments", "{")],
        [("arguments", '"place": "Os')],
        [("arguments", "lo")],
        [("arguments", '"}')],
        [("end", "")],
        [],
    ]


@pytest.mark.parametrize(
    ("wrote", "cut", "folded"),
    [
        ("Hi <tool_c", True, [("text", "Hi")]),
        ("Hi <tool_c", False, [("text", "Hi <tool_c")]),
        ('Hi <tool_call>{"name": "lo', True, [("text", "Hi")]),
        ('Hi <tool_call>{"name": "lo', False, [("text", 'Hi <tool_call>{"name": "lo')]),
        ("Hi \n", True, [("text", "Hi \n")]),
        ("<thi", True, []),
        ("<thi", False, [("text", "<thi")]),
        ("<think>a</thi", True, [("reasoning", "a")]),
        ('<tool_call>{"name": "nope", "x": 1', True, [("text", '<tool_call>{"name": "nope", "x": 1')]),
        (BEGUN + '{"n": 1', True, [("call", "look"), ("arguments", '{"n": '), ("cut", "")]),
        (BEGUN + '{"n": 1}', True, [("call", "look"), ("arguments", '{"n": 1}'), ("end", "")]),
        (BEGUN + '{"n": 1}}', False, [("call", "look"), ("arguments", '{"n": 1}'), ("end", "")]),
        (" " * 65 + "<think>", False, [("text", " " * 65 + "<think>")]),
    ],
)  # fmt: skip
def test_what_is_held_at_the_end(wrote: str, cut: bool, folded: list[tuple[str, str]]) -> None:
    for pieces in every_cut(wrote):
        assert fold(split(pieces, cut=cut)) == folded


def test_prefill_sets_the_state_and_is_not_given_out() -> None:
    quoted = call("look", "{}")
    assert fold(split([quoted], prefill="```xml\n")) == [("text", quoted)]
    assert fold(split(["<think>x</think>"], prefill="So ")) == [("text", "<think>x</think>")]
    assert fold(split(["  more</think>\nHi"], prefill="<think>some", thinking_open=True)) == [
        ("reasoning", "  more"), ("end", ""), ("text", "Hi")
    ]  # fmt: skip
    assert fold(split(["\nso</think>"], prefill="<think>", thinking_open=True))[0] == ("reasoning", "so")
    assert fold(split(["\n\nHi"], prefill="<think>x</think>")) == [("text", "Hi")]
    assert fold(split([call("look", "{}")], prefill="a < b `c` <"))[0] == ("call", "look")


def test_plain_tells_when_the_splitter_is_no_longer_needed() -> None:
    splitter = Splitter(HERMES, frozenset())
    assert not splitter.plain
    splitter.feed("<think>a</think>\n")
    assert not splitter.plain
    splitter.feed("\nHi")
    assert splitter.plain
    assert Splitter(ReplyFormat(), NAMES).plain
    assert not Splitter(HERMES, NAMES, prefill="x").plain


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="hermes"):
        Splitter(ReplyFormat(tool_family="other"), NAMES)


def test_a_format_without_a_closing_tag_has_no_thoughts() -> None:
    assert fold(split(["a"], format=ReplyFormat(), thinking_open=True)) == [("text", "a")]


def test_every_pair_of_fragments_splits_alike() -> None:
    for pair in itertools.product(FRAGMENTS, repeat=2):
        text = "".join(pair)
        assert fold(split(list(text))) == fold(split([text])), pair
