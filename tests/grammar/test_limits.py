"""Hostile constraints are refused; nothing stalls and nothing takes the process down."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.constraint import Constraint
from dragoman.core.errors import DragomanError, InvalidRequest, Overloaded
from dragoman.core.request import OutputFormat
from dragoman.core.tools import ToolChoice
from dragoman.grammar.compiler import Compiler
from dragoman.grammar.limits import Limits
from dragoman.grammar.matchers import Matchers, Recent
from tests.grammar.rig import COMPILER, TOKENIZER, schema_format, text_of, tool


def deep(levels: int, wrap: str = "items") -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", wrap: schema} if wrap == "items" else {wrap: [schema]}
    return schema


def chain(links: int, keyword: str) -> Any:
    definitions: dict[str, Any] = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(links)}
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{links}": {"type": "integer"}}}


def fields_of_refusal(format: OutputFormat) -> list[str]:
    """The field of its refusal; none where it compiles. Anything else is an error."""
    try:
        assert text_of(format).startswith("%llguidance {}")
    except InvalidRequest as refused:
        return [refused.field or ""]
    return []


HOSTILE: dict[str, Any] = {
    "deep items": deep(300),
    "deep anyOf": deep(200, "anyOf"),
    "deep literal": {"const": json.loads("[" * 500 + "]" * 500)},
    "long chain of references": chain(5000, "anyOf"),
    "a loop of references": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "intersections that multiply": {
        "allOf": [
            {"anyOf": [{"type": "object", "properties": {f"p{i}{j}": {"const": j}}} for j in range(4)]}
            for i in range(9)
        ]
    },
    "huge least count": {"type": "array", "minItems": 10**9},
    "huge least length": {"type": "string", "minLength": 10**12},
    "many literals": {"enum": list(range(60_000))},
    "many keys": {"type": "object", "properties": {f"k{i}": {"type": "integer"} for i in range(30_000)}},
    "large": {"description": "x" * 600_000},
    "oneOf of itself": {"oneOf": [{"$ref": "#"}, {"type": "null"}]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        text_of(schema_format(HOSTILE[name]))


def test_hostile_json_text_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        text_of(OutputFormat("json_schema", '{"items":' * 100_000))


@pytest.mark.parametrize("schema", [chain(200, "anyOf"), chain(200, "allOf"), deep(20)], ids=["anyOf", "allOf", "deep"])
def test_schemas_that_only_look_hostile_compile(schema: Any) -> None:
    assert text_of(schema_format(schema))


RULES = {
    "a long chain of rules": "start: r0\n" + "".join(f'r{i}: "a" r{i + 1}\n' for i in range(5000)) + 'r5000: "b"\n',
    "deep brackets": "start: " + "(" * 2000 + '"a"' + ")" * 2000,
    "deep brackets in JSON": "start: %json " + '{"items":' * 500 + "{}" + "}" * 500,
    "a long chain in JSON": "start: %json " + json.dumps(chain(2000, "anyOf")),
    "many rules": "start: r0\n" + "".join(f'r{i}: "a"\n' for i in range(5000)),
    "large": 'start: "' + "x" * 600_000 + '"',
}


@pytest.mark.parametrize("name", RULES)
def test_hostile_lark_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        text_of(OutputFormat("lark", RULES[name]))


def test_hostile_gbnf_is_refused() -> None:
    rules = "".join(f'r{i} ::= "a" r{i + 1}\n' for i in range(5000))
    for source in (f'root ::= r0\n{rules}r5000 ::= "b"\n', "root ::= " + "(" * 5000, 'root ::= "a"{9999999}'):
        with pytest.raises(InvalidRequest):
            text_of(OutputFormat("gbnf", source))


def test_a_hostile_regex_is_refused_or_compiles() -> None:
    for source in (
        "(" * 5000 + ")" * 5000,
        "(a{1000}){1000}",
        "(x+x+)+y{1,500}(.{1,300}z){1,300}",
        "a|" * 50_000 + "b",
    ):
        fields_of_refusal(OutputFormat("regex", source))


def test_a_schema_of_a_tool_counts_too() -> None:
    with pytest.raises(InvalidRequest) as refused:
        COMPILER.compile(Constraint(tools=(tool("t", a=deep(500)),), choice=ToolChoice("required")))
    assert refused.value.field is not None
    assert refused.value.field.startswith("tools.t")


class Stuck:
    """A compilation that waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self) -> Any:
        self.go.wait(30)
        raise RuntimeError("let go")


def test_a_slow_compilation_is_refused_and_a_third_one_turned_away() -> None:
    matchers = Matchers(TOKENIZER, Limits(seconds=0.05, compilers=2))
    stuck = Stuck()
    try:
        for _ in range(2):
            with pytest.raises(InvalidRequest, match="longer than"):
                matchers._timed(stuck, "field")
        with pytest.raises(Overloaded):
            matchers.problem('%llguidance {}\nstart: "a"\n', "field")
    finally:
        stuck.go.set()
    for _ in range(200):
        try:
            assert matchers.problem('%llguidance {}\nstart: "a"\n', "field") == ""
            return
        except DragomanError:
            continue
    pytest.fail("the places were never free again")


def test_a_compilation_that_takes_much_work_is_refused() -> None:
    matchers = Matchers(TOKENIZER, Limits(cpu_seconds=0.0))
    with pytest.raises(InvalidRequest, match="more than 0 s") as refused:
        matchers.problem('%llguidance {}\nstart: "a"\n', "grammar")
    assert refused.value.field == "grammar"


def test_what_was_compiled_is_kept() -> None:
    compiler = Compiler(TOKENIZER)
    format = schema_format({"type": "integer"})
    first = compiler.compile(Constraint(format=format))
    compiler._spelling  # noqa: B018
    assert compiler.compile(Constraint(format=schema_format({"type": "integer"}))) is first


def test_the_one_not_used_for_longest_goes() -> None:
    recent: Recent[int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c"), len(recent)) == (1, None, 3, 2)


JUNK = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["object", "#", "#/$defs/a"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["type", "$ref", "properties", "items", "anyOf", "oneOf", "allOf", "enum", "required", "$defs", "a",
                 "minimum", "maxItems", "pattern", "format", "const", "additionalProperties", "prefixItems", "not"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(JUNK)
def test_any_json_as_a_schema_compiles_or_is_refused(schema: Any) -> None:
    assert all(field.startswith("response_format") for field in fields_of_refusal(schema_format(schema)))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text('root:= \n"[]()|*+?{}ab01,<>!#\\-^.', max_size=60))
def test_any_text_as_gbnf_compiles_or_is_refused(text: str) -> None:
    for source in (text, f"root ::= {text}"):
        assert set(fields_of_refusal(OutputFormat("gbnf", source))) <= {"response_format"}
