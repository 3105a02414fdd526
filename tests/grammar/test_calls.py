"""Tool calls of every family: forced, named, one or several, and strict ones in free text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidRequest
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import OutputFormat
from dragoman.core.tools import Tool, ToolChoice
from dragoman.grammar.limits import Limits
from dragoman.output.families.family import PythonArguments, ToolFamily
from dragoman.output.families.table import FAMILIES
from tests.families.spelled import spelled
from tests.grammar.rig import COMPILER, accepts, tool, verdict

LOOK = Tool(
    "look",
    None,
    {
        "type": "object",
        "properties": {
            "place": {"type": "string"},
            "n": {"type": "integer", "minimum": 1},
            "exact": {"type": "boolean"},
            "unit": {"enum": ["C", "F"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "note": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["place"],
    },
    field="tools[0].function.parameters",
)
SAVE = tool("save", body={"type": "string"})
IDLE = Tool("idle")
ALL: dict[str, Any] = {
    "place": "Oslo, é",
    "n": 2,
    "exact": True,
    "unit": "F",
    "tags": ["a", "b c"],
    "at": {"x": -1.5},
    "note": None,
}

EACH_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)


def forced(family: str, *, mode: str = "required", names: tuple[str, ...] = (), parallel: bool = True) -> str:
    choice = ToolChoice(mode, names)  # type: ignore[arg-type]
    return COMPILER.compile(
        Constraint(tools=(LOOK, SAVE, IDLE), choice=choice, parallel=parallel, reply=ReplyFormat(tool_family=family))
    )


@EACH_FAMILY
@pytest.mark.parametrize(
    "arguments", [ALL, {"place": "x"}, {"place": "a <b> {c}", "unit": "C"}, {"place": "", "tags": [], "note": 5}]
)
def test_a_forced_call_is_the_familys_own_form(family: ToolFamily, arguments: dict[str, Any]) -> None:
    grammar = forced(family.name, parallel=False)
    wrote = spelled(family.form, [("look", arguments)])
    assert accepts(grammar, wrote), wrote
    assert accepts(grammar, spelled(family.form, [("idle", {})]))
    assert not accepts(grammar, "Hello")
    assert not accepts(grammar, spelled(family.form, [("other", {})]))
    assert not accepts(grammar, spelled(family.form, [("look", {**arguments, "unit": "K"})]))
    assert not accepts(grammar, spelled(family.form, [("look", {})]))
    assert not accepts(grammar, spelled(family.form, [("look", {"place": "x", "n": "many"})]))


@EACH_FAMILY
def test_several_calls_only_where_they_are_wanted(family: ToolFamily) -> None:
    both = spelled(family.form, [("look", {"place": "x"}), ("save", {"body": "y"})])
    assert accepts(forced(family.name), both)
    assert not accepts(forced(family.name, parallel=False), both)


@EACH_FAMILY
def test_forced_calls_come_to_an_end(family: ToolFamily) -> None:
    calls = [("save", {"body": "y"})] * (Limits().calls + 1)
    assert accepts(forced(family.name), spelled(family.form, calls[1:]))
    assert not accepts(forced(family.name), spelled(family.form, calls))


@EACH_FAMILY
def test_only_named_tools(family: ToolFamily) -> None:
    grammar = forced(family.name, mode="named", names=("save",))
    assert accepts(grammar, spelled(family.form, [("save", {"body": "x"})]))
    assert not accepts(grammar, spelled(family.form, [("look", {"place": "x"})]))


@EACH_FAMILY
def test_numbers_keep_their_bounds(family: ToolFamily) -> None:
    grammar = forced(family.name, parallel=False)
    assert not accepts(grammar, spelled(family.form, [("look", {"place": "x", "n": 0})]))


@EACH_FAMILY
def test_strict_tools_in_free_text(family: ToolFamily) -> None:
    strict = tool("pick", strict=True, color={"enum": ["red", "blue"]})
    grammar = COMPILER.compile(Constraint(tools=(strict, SAVE), reply=ReplyFormat(tool_family=family.name)))
    opened, closed = family.form.text_open, family.form.text_close
    assert accepts(grammar, f"{opened}Hello there, <b> and text.{closed}")
    prose = "" if family.form.bare or opened else "Let me see. "
    assert accepts(grammar, prose + spelled(family.form, [("pick", {"color": "red"})]))
    assert accepts(grammar, prose + spelled(family.form, [("save", {"body": "x"})]))
    assert not accepts(grammar, prose + spelled(family.form, [("pick", {"color": "green"})]))
    assert not accepts(grammar, prose + spelled(family.form, [("other", {})]))


def test_generic_calls_for_models_without_a_family() -> None:
    grammar = forced("", parallel=False)
    call = '<tool_call>\n{"name": "save", "arguments": {"body": "x"}}\n</tool_call>'
    assert verdict(grammar, call) == "whole"


def test_a_format_or_a_call() -> None:
    grammar = COMPILER.compile(
        Constraint(format=OutputFormat("choice", '["yes"]'), tools=(SAVE,), reply=ReplyFormat(tool_family="hermes"))
    )
    assert accepts(grammar, "yes")
    assert accepts(grammar, spelled(FAMILIES["hermes"].form, [("save", {"body": "x"})]))
    assert not accepts(grammar, "no")


def test_a_bad_schema_is_refused_under_its_tool() -> None:
    bad = Tool("bad", None, {"type": "object", "properties": {"a": {"not": {}}}}, field="tools[1].function.parameters")
    with pytest.raises(InvalidRequest) as refused:
        COMPILER.compile(Constraint(tools=(SAVE, bad), choice=ToolChoice("required")))
    assert refused.value.field == "tools[1].function.parameters.properties.a.not"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="nope") as refused:
        forced("hermes", mode="named", names=("nope",))
    assert refused.value.field == "tool_choice"


def test_a_name_is_a_json_string_inside_json() -> None:
    odd = Tool('say "hi"')
    grammar = COMPILER.compile(Constraint(tools=(odd,), choice=ToolChoice("required"), parallel=False))
    name = json.dumps(odd.name)
    assert accepts(grammar, f'<tool_call>\n{{"name": {name}, "arguments": {{}}}}\n</tool_call>')


@pytest.mark.parametrize("text", ["'it''s'", "'a'", '"a"', "'it\\'s'"])
def test_python_strings_in_either_quotes(text: str) -> None:
    family = next(row for row in FAMILIES.values() if isinstance(row.form.arguments, PythonArguments))
    grammar = forced(family.name, parallel=False)
    wrote = f"{family.form.opener}save(body={text}){family.form.closer}"
    assert accepts(grammar, wrote) == (text != "'it''s'")
