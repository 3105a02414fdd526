"""Promises of an answer, kept or told as broken (issue: never a 200 with garbage)."""

from __future__ import annotations

import pytest

from dragoman.core.answer import AnswerPart
from dragoman.core.constraint import Constraint
from dragoman.core.errors import ContractBroken
from dragoman.core.events import Event, Failed, Finished, PartDelta, PartEnd, PartStart
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.request import OutputFormat
from dragoman.core.tools import Tool, ToolChoice
from dragoman.core.usage import Usage
from dragoman.service.contract import Contract, ContractWatch
from tests.service.compilers import NotingCompiler

LOOK = Tool("look", None, {"type": "object"})
STRICT = Tool("look", None, {"type": "object"}, True, "tools[0].function.parameters")
STRICT_JSON = OutputFormat("json_schema", '{"type":"object"}', "response_format.json_schema.schema", strict=True)


def text(said: str) -> AnswerPart:
    return AnswerPart("text", said)


def call(name: str, arguments: str = "{}") -> AnswerPart:
    return AnswerPart("tool_call", arguments, "call_0", name)


REQUIRED = Constraint(tools=(LOOK,), choice=ToolChoice("required"))
NAMED = Constraint(tools=(LOOK, Tool("save")), choice=ToolChoice("named", ("look",)))


@pytest.mark.parametrize(
    ("constraint", "parts", "field"),
    [
        (REQUIRED, [text("no")], "tool_choice"),
        (REQUIRED, [], "tool_choice"),
        (REQUIRED, [call("look")], None),
        (NAMED, [call("save")], "tool_choice"),
        (NAMED, [call("look")], None),
        (Constraint(format=STRICT_JSON), [text('{"a": 1}')], None),
        (Constraint(format=STRICT_JSON), [text("Sure: {}")], STRICT_JSON.field),
        (Constraint(format=STRICT_JSON), [], STRICT_JSON.field),
        (Constraint(format=STRICT_JSON, tools=(LOOK,)), [call("look")], None),
        (Constraint(tools=(STRICT,)), [text("no call")], None),
    ],
)
def test_breaches(constraint: Constraint, parts: list[AnswerPart], field: str | None) -> None:
    contract = Contract(constraint, NotingCompiler(), bound=False)
    assert not contract.empty
    breach = contract.breach(parts)
    assert (breach and breach.field) == field
    assert breach is None or (breach.status, breach.code) == (502, "contract_broken")


@pytest.mark.parametrize(
    "constraint", [Constraint(), Constraint(tools=(LOOK,)), Constraint(format=OutputFormat("json"))]
)
def test_nothing_promised(constraint: Constraint) -> None:
    assert Contract(constraint, None, bound=False).empty


def test_unbound_forms_are_judged_by_their_schema() -> None:
    constraint = Constraint(format=STRICT_JSON, tools=(STRICT,))
    for parts, judged in (([text("{}")], STRICT_JSON.text), ([call("look")], '{"type":"object"}')):
        judge = NotingCompiler(accepted=False)
        assert Contract(constraint, judge, bound=False).breach(parts) is not None
        assert [format.text for format, _ in judge.judged] == [judged]
        bound = NotingCompiler(accepted=False)
        assert Contract(constraint, bound, bound=True).breach(parts) is None
        assert bound.judged == []


def events(reason: FinishReason) -> list[Event]:
    return [
        PartStart(0, 0, "text"),
        PartDelta(0, 0, "no", (1,)),
        PartEnd(0, 0),
        Finished(0, Finish(reason), Usage()),
    ]


@pytest.mark.parametrize("reason", list(FinishReason))
def test_an_answer_that_was_cut_broke_nothing(reason: FinishReason) -> None:
    watch = ContractWatch(Contract(REQUIRED, None, bound=False))
    complete = watch.note(events(reason))
    assert complete == (reason in (FinishReason.EOS, FinishReason.TOOL_CALLS))


def test_the_verdict_takes_the_place_of_the_end() -> None:
    said = events(FinishReason.EOS)
    watch = ContractWatch(Contract(REQUIRED, None, bound=False))
    assert [watch.note(said[:2]), watch.note(said[2:])] == [False, True]
    *before, last = watch.verdict(said[2:])
    assert before == said[2:-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, ContractBroken)
