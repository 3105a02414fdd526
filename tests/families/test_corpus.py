import json

import pytest

from dragoman.core.exchange import EngineFinish
from dragoman.core.finish import FinishReason
from dragoman.core.prompt import ReplyFormat
from dragoman.output.splitting import open_splitter
from tests.families.case import TOOLS, Case, Part
from tests.families.corpus import ALL
from tests.families.standard import Snippets, cases
from tests.output.fakes import fold, run

CORPUS = [(snippets, case) for snippets in ALL for case in cases(snippets)]
each_case = pytest.mark.parametrize(
    ("snippets", "case"), CORPUS, ids=[f"{snippets.family}: {case.name}" for snippets, case in CORPUS]
)


def format_of(snippets: Snippets) -> ReplyFormat:
    opens, closes = snippets.think
    if snippets.family == "harmony":
        closes = "<|end|>"
    return ReplyFormat(think_open=opens.strip(), think_close=closes, tool_family=snippets.family)


def read(snippets: Snippets, case: Case, pieces: list[str], *, cut: bool = False) -> tuple[list[Part], list[str]]:
    """Parts, and the names of what was mended; a call that was cut has no kind of its own here."""
    splitter = open_splitter(format_of(snippets), TOOLS, thinking_open=case.thinking_open)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)]
    parts: list[Part] = []
    for kind, content in fold([*segments, *splitter.flush(cut=cut)]):
        if kind == "call":
            parts.append(("tool_call", content, ""))
        elif kind == "arguments":
            parts[-1] = (*parts[-1][:2], content)
        elif kind == "cut":
            parts[-1] = ("cut", *parts[-1][1:])
        elif kind != "end":
            parts.append((kind, "", content))
    return parts, splitter.repairs


def meant(case: Case) -> list[Part]:
    return [("cut", *part[1:]) if part[0] == "tool_call" and not part[2].endswith("}") else part for part in case.parts]


def test_every_family_has_twelve_cases() -> None:
    for snippets in ALL:
        assert len({case.name for case in cases(snippets)}) == len(cases(snippets)) >= 12


@each_case
def test_every_cut_in_two_and_every_character_alone_read_as_meant(snippets: Snippets, case: Case) -> None:
    wanted = (meant(case), list(case.repairs))
    assert read(snippets, case, [case.wrote]) == wanted
    assert read(snippets, case, list(case.wrote)) == wanted
    for at in range(1, len(case.wrote)):
        assert read(snippets, case, [case.wrote[:at], case.wrote[at:]]) == wanted, at


@each_case
def test_an_answer_cut_by_the_limit_promises_nothing_it_does_not_have(snippets: Snippets, case: Case) -> None:
    whole = [part for part in case.parts if part[0] == "tool_call"]
    for end in range(len(case.wrote)):
        wrote = case.wrote[:end]
        found = read(snippets, case, [wrote], cut=True)
        assert read(snippets, case, [wrote[: end // 2], wrote[end // 2 :]], cut=True) == found
        calls = [part for part in found[0] if part[0] == "tool_call"]
        assert calls == whole[: len(calls)]
        for _, name, arguments in (part for part in found[0] if part[0] == "cut"):
            assert name == whole[len(calls)][1]
            assert whole[len(calls)][2].startswith(arguments)


@each_case
def test_streamed_events_fold_to_the_whole_answer(snippets: Snippets, case: Case) -> None:
    for pieces in (list(case.wrote), [case.wrote]):
        reply = run(pieces, format=format_of(snippets), tools=TOOLS, thinking_open=case.thinking_open)
        assert reply.parts == case.parts
        assert reply.events[-1].repairs == case.repairs
        calls = [part for part in reply.choice.parts if part.kind == "tool_call" and part.text.endswith("}")]
        assert (reply.choice.finish.reason is FinishReason.TOOL_CALLS) == bool(calls)
        for part in calls:
            assert isinstance(json.loads(part.text), dict)
        assert len({part.id for part in calls}) == len(calls)


@pytest.mark.parametrize("snippets", ALL, ids=lambda snippets: snippets.family)
def test_a_call_cut_by_the_limit_ends_with_length(snippets: Snippets) -> None:
    reply = run(list(snippets.special[:-12]), EngineFinish.LENGTH, format=format_of(snippets), tools=TOOLS)
    assert reply.choice.finish.reason is FinishReason.LENGTH


@pytest.mark.parametrize("snippets", ALL, ids=lambda snippets: snippets.family)
def test_long_strings_stream(snippets: Snippets) -> None:
    splitter = open_splitter(format_of(snippets), TOOLS)
    longer = snippets.special.replace("Tromsø", "Tromsø" + "m" * 500)
    fragments = [segment for piece in longer for segment in splitter.feed(piece) if segment.kind == "arguments"]
    assert len(fragments) > 500
