"""Formats other than schemas: any JSON, regex, choice, Lark."""

from __future__ import annotations

import json

import pytest

from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.core.request import OutputFormat
from tests.grammar.rig import COMPILER, accepts, text_of, verdict


def test_the_text_says_who_reads_it() -> None:
    assert text_of(OutputFormat("json")).startswith("%llguidance {}\n")


def test_any_json_is_an_object() -> None:
    spaced, compact = text_of(OutputFormat("json")), text_of(OutputFormat("json", whitespace=False))
    assert verdict(spaced, '{"a": [1, {"b": null}]}') == "whole"
    assert verdict(compact, '{"a":[1,{"b":null}]}') == "whole"
    assert not accepts(compact, '{"a": 1}')
    assert not accepts(spaced, "[1]")


@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        ("ab+", ["ab", "abbb"], ["a", "xab", "abx"]),
        ("^ab+$", ["ab", "abbb"], ["a", "^ab", "ab$"]),
        (r"a\$", ["a$"], ["a"]),
        ("^a|b$", ["a", "b"], ["c"]),
        (r"\d{4}-\d\d", ["2024-01"], ["2024-1"]),
        ("[^/]+/é{2}", ["a/éé"], ["a/é"]),
        ("(?i)yes", ["YES", "yes"], ["no"]),
    ],
)
def test_a_regex_matches_the_whole_answer(source: str, right: list[str], wrong: list[str]) -> None:
    grammar = text_of(OutputFormat("regex", source))
    assert [text for text in right if not accepts(grammar, text)] == []
    assert [text for text in wrong if accepts(grammar, text)] == []
    assert COMPILER.accepts(OutputFormat("regex", source), right[0])


@pytest.mark.parametrize(
    ("source", "column", "reason"),
    [("ab[c", 3, "unclosed"), ("a(?=b)", 2, "look-around"), (r"(a)\1", 4, "backreferences"), ("^a{2,1}", 3, "range")],
)
def test_a_wrong_regex_is_refused_with_its_place(source: str, column: int, reason: str) -> None:
    with pytest.raises(InvalidField, match=reason) as refused:
        text_of(OutputFormat("regex", source, "guided_regex"))
    assert f"at column {column} " in refused.value.message
    assert refused.value.field == "guided_regex"


def test_choices_are_taken_as_they_are() -> None:
    choices = ["a", "ab", "a.b", "[x]/\\d#&~ ", 'say "hi"\n', "😀", "-"]
    grammar = text_of(OutputFormat("choice", json.dumps(choices)))
    assert [text for text in choices if not accepts(grammar, text)] == []
    assert [text for text in ["axb", "b", "abc", "x"] if accepts(grammar, text)] == []
    assert verdict(grammar, "a") == "open"
    assert verdict(grammar, "😀") == "whole"


@pytest.mark.parametrize("text", ["[]", '["a", 1]', '[""]', '"a"', "{", "a, b"])
def test_a_wrong_list_of_choices_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        text_of(OutputFormat("choice", text))


@pytest.mark.parametrize("header", ["", "%llguidance {}\n", "\n%llguidance { }\n\n"])
def test_lark_with_and_without_header(header: str) -> None:
    grammar = text_of(OutputFormat("lark", header + 'start: "a" B\nB: /b+/'))
    assert accepts(grammar, "abb")
    assert not accepts(grammar, "b")


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ('start: "a" b', 1, 8),
        ('\n\nstart: "a" b', 3, 8),
        ('%llguidance {}\n\nstart: "a" (\n', 3, 13),
        ("start: x\nx: /[/", 2, 4),
        ('start: "a" }', 1, 12),
    ],
)
def test_wrong_lark_is_refused_with_its_place(source: str, line: int, column: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        text_of(OutputFormat("lark", source, "grammar"))
    where = f"at column {column} " if line == 1 else f"at line {line}, column {column} "
    assert where in refused.value.message


def test_lark_without_a_start_is_refused() -> None:
    with pytest.raises(InvalidField, match="start"):
        text_of(OutputFormat("lark", 'x: "a"'))
