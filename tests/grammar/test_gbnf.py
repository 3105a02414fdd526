"""GBNF, eager and lazy."""

from __future__ import annotations

import pytest

from dragoman.core.errors import InvalidRequest
from dragoman.core.request import GrammarTrigger, OutputFormat
from tests.grammar.rig import accepts, text_of, verdict

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::= "[" ws ( value ("," ws value)* )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

ws ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        (JSON, ['{"a": [1, -2.5e3, "x\\u00e9"],\n  "b": {}}', "{}"], ['{"a" 1}', "[1]", '{"a": 01}']),
        ('root ::= "a" | "b" root', ["a", "ba", "bba"], ["b", "ab"]),
        ('root ::= [a-z]+ "a"', ["za", "aa"], ["z", "az"]),
        ('root ::= ("x" | "xy")* "z"?', ["", "xxyz"], ["y", "zz"]),
        ('root ::= "a"{2,3} b{2} c{1,}\nb ::= "b"\nc ::= "c"', ["aabbc", "aaabbcc"], ["abbc", "aabbb", "aabb"]),
        (r'root ::= [\x41-\x43\u00e9\U0001F600-] "\t\"\\"', ["Aé"[1] + '\t"\\', '-\t"\\', '😀\t"\\'], ['D\t"\\']),
        ("root ::= [^\\n\\]]+ .", ["ab", "a\n", "x]"], ["\nx", "]x"]),
        ('root ::= ""', [""], ["a"]),
        ('root ::= "a" # comment\n  # another\nb-c ::= "x"\n', ["a"], ["x"]),
        ('root ::=\n  one |\n  two\none ::= "1"\ntwo ::= ("2" |\n "3")', ["1", "2", "3"], ["4"]),
        ('root ::= "[" expr "]"\nexpr ::= expr "+" expr | "(" expr ")" | [0-9]+', ["[1+(2+3)]"], ["[1+]", "[()]"]),
        ('root ::= <|im_start|> "a"', ["<|im_start|>a"], ["a"]),
        ('root ::= "<|im_start|>a"', ["<|im_start|>a"], ["a"]),
        ('root ::= "a"{0} "b"', ["b"], ["ab"]),
    ],
)
def test_gbnf(source: str, right: list[str], wrong: list[str]) -> None:
    grammar = text_of(OutputFormat("gbnf", source))
    assert [text for text in right if not accepts(grammar, text)] == []
    assert [text for text in wrong if accepts(grammar, text)] == []


@pytest.mark.parametrize(
    ("source", "line", "column", "reason"),
    [
        ('root ::= "a" foo', 1, 14, "'foo' is not defined"),
        ('root ::= "a" ("b"\n', 2, 1, "expected '\\)'"),
        ('a ::= "x"', 1, 1, "no rule 'root'"),
        ('root = "a"', 1, 6, "expected '::='"),
        ('root ::= "a', 1, 10, "never closed"),
        ("root ::= [a", 1, 10, "never closed"),
        (r'root ::= "\q"', 1, 11, "no such escape"),
        ("root ::= [z-a]", 1, 14, "wrong way round"),
        ('root ::= "a"{3,1}', 1, 18, "no repetition"),
        ('root ::= "a"{x}', 1, 14, "expected a number"),
        ('root ::= "a" )', 1, 14, "out of place"),
        ("root ::= <nope", 1, 10, "no token"),
        ("\n\nroot ::= []", 3, 10, "no character"),
    ],
)
def test_wrong_gbnf_is_refused_with_its_place(source: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refused:
        text_of(OutputFormat("gbnf", source, "grammar"))
    where = f"at column {column} " if line == 1 else f"at line {line}, column {column} "
    assert where in refused.value.message
    assert refused.value.field == "grammar"


def test_a_token_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="<nope>"):
        text_of(OutputFormat("gbnf", "root ::= <nope>"))
    with pytest.raises(InvalidRequest, match="99999"):
        text_of(OutputFormat("gbnf", "root ::= <[99999]>"))


CALL = 'root ::= "<call>" name "</call>"\nname ::= [a-z]+\n'


@pytest.mark.parametrize(
    "trigger",
    [
        GrammarTrigger("word", "<call>"),
        GrammarTrigger("pattern", "<call>"),
        GrammarTrigger("pattern_full", r"[\s\S]*?(<call>[\s\S]*)"),
        GrammarTrigger("pattern", r"\<call\>"),
    ],
)
def test_a_lazy_constraint_begins_with_its_trigger(trigger: GrammarTrigger) -> None:
    grammar = text_of(OutputFormat("gbnf", CALL, triggers=(trigger,)))
    assert verdict(grammar, "free <c text") == "open"
    assert verdict(grammar, "so: <call>abc</call>") == "whole"
    assert verdict(grammar, "so: <call>ab") == "part"
    assert verdict(grammar, "so: <call>9") == "no"


def test_a_special_token_as_trigger() -> None:
    source = 'root ::= "<|im_start|>" [a-z]+ "!"'
    token = GrammarTrigger("token", token=258)
    grammar = text_of(OutputFormat("gbnf", source, triggers=(token,)))
    assert verdict(grammar, "hello") == "open"
    assert verdict(grammar, "hello<|im_start|>ab!") == "whole"
    assert verdict(grammar, "hello<|im_start|>9") == "no"


def test_triggers_of_a_recursive_grammar() -> None:
    grammar = text_of(
        OutputFormat("gbnf", JSON, triggers=(GrammarTrigger("word", '{"na'), GrammarTrigger("word", "{}")))
    )
    assert verdict(grammar, 'hi {"name": [1]}') == "open"
    assert verdict(grammar, 'hi {"na') == "part"
    assert verdict(grammar, 'hi {"na}') == "part"
    assert verdict(grammar, 'hi {"name" 1') == "no"


@pytest.mark.parametrize(
    ("format", "reason"),
    [
        (OutputFormat("gbnf", CALL, triggers=(GrammarTrigger("word", "other"),)), "does not begin with"),
        (OutputFormat("gbnf", CALL, triggers=(GrammarTrigger("pattern", "<[cd]all>"),)), "cannot be watched"),
        (OutputFormat("json", triggers=(GrammarTrigger("word", "{"),)), "cannot be lazy"),
    ],
)
def test_what_cannot_be_lazy_is_refused(format: OutputFormat, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        text_of(format)
