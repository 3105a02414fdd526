"""Grammars of JSON's spelling of texts: a text is of the grammar exactly if its spelling is of the other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.constraint import Constraint
from dragoman.core.request import OutputFormat
from dragoman.core.tools import Tool, ToolChoice
from dragoman.grammar.escaped_lark import escaped_grammar
from dragoman.grammar.lark import HEADER
from dragoman.grammar.mask import GrammarMask
from tests.grammar.rig import COMPILER, DATA, TOKENIZER, accepts, walk

PATCH_GRAMMAR = (DATA / "apply_patch.lark").read_text()
CODE_GRAMMAR = (
    "start: pragma_source | plain_source\npragma_source: PRAGMA_LINE NEWLINE SOURCE\nplain_source: SOURCE\n\n"
    "PRAGMA_LINE: /[ \\t]*\\/\\/ @exec:[^\\r\\n]*/\nNEWLINE: /\\r?\\n/\nSOURCE: /[\\s\\S]+/\n"
)
PATCH = '*** Begin Patch\n*** Update File: a "b"\\c.txt\n@@ def f():\n-\told\n+new é😀 "quoted" \\n\n*** End Patch'
GRAMMARS = {
    "patch": PATCH_GRAMMAR,
    "code": CODE_GRAMMAR,
    "class": r"start: /[^a\]]+/",
    "backing": r'start: /[a-z\n]+\nx/ | /"+/',
    "negated": r'start: /[^\n\\]*/ "\n"',
    "range": r'start: "a".."c" "\n"?',
    "flags": r"start: /a.b/s | /x.y/ | /(?i:k\n)/",
    "words": r"start: /\w+\s\W\S\d?/",
    "codes": r"start: /\x41\u0042\x{43}[\x09\u{22}]/",
    "literals": 'start: "a\\tb\\"c" | "q"i | "\\\\"',
    "recursive": 'start: "(" start? ")" | "\\n"',
    "times": 'start: "a"~2 "\\n"~1..2',
    "library": "start: WORD NEWLINE INT\n%import common (WORD, NEWLINE)\n%import common.INT",
}
LETTERS = st.text(st.sampled_from(list('aAbBcCdekxyz09 \n\t\r"\\()]é😀/-+*@')), max_size=9)
SAMPLES = {
    "patch": [PATCH, PATCH + "\n", PATCH[:-1], PATCH.replace("@@", "@"), "*** Begin Patch\n*** End Patch"],
    "code": ["x = 1", "// @exec: {}\nx", "\t// @exec:\r\nprint('a')\n", ""],
    "class": ["b", '"\\\n', "ba", "]"],
    "backing": ["a\n\nx", '""', "ab\nx", "abx"],
    "negated": ["\n", "a\t\x01\n", "\n\n", "\\\n"],
    "range": ["a", "c\n", "d", "a\n\n"],
    "flags": ["a\nb", 'a"b', "x\ny", "x\ty", "K\n", "k\n", "k\\n"],
    "words": ["ab\n-x5", "ab\t\\\\", "é 😀x", "a b c"],
    "codes": ["ABC\t", 'ABC"', "ABCx"],
    "literals": ['a\tb"c', "q", "Q", "\\", "\\\\"],
    "recursive": ["(())", "((\n))", "(()"],
    "times": ["aa\n", "aa\n\n", "a\n", "aa"],
    "library": ["abc\n12", "abc\r\n\n1", "abc 1"],
}


def spelled(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def both(name: str) -> tuple[str, str]:
    escaped = escaped_grammar(GRAMMARS[name])
    assert escaped is not None
    return HEADER + GRAMMARS[name], HEADER + escaped


@pytest.mark.parametrize("name", GRAMMARS)
def test_samples(name: str) -> None:
    plain, escaped = both(name)
    verdicts = {accepts(plain, text) for text in SAMPLES[name]}
    assert verdicts == {True, False}, "samples of both kinds"
    for text in SAMPLES[name]:
        assert accepts(escaped, spelled(text)) is accepts(plain, text), text


@pytest.mark.parametrize("name", GRAMMARS)
@settings(max_examples=8, deadline=None)
@given(text=LETTERS)
def test_a_text_is_accepted_exactly_if_its_spelling_is(name: str, text: str) -> None:
    plain, escaped = both(name)
    assert accepts(escaped, spelled(text)) is accepts(plain, text)


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_is_written_within_the_mask_is_json_of_a_text_of_the_grammar(name: str) -> None:
    plain, escaped = both(name)
    for seed in range(2):
        written = walk(GrammarMask(COMPILER.matcher(escaped), TOKENIZER.size), seed)
        if written is not None:
            assert accepts(plain, json.loads(f'"{written.decode()}"'))


@pytest.mark.parametrize(
    "grammar",
    [
        "start: ~/a/",
        'start: "a" "b"\n%ignore / /',
        "start: <|im_end|>",
        'start: %json {"type": "string"}',
        'start: %regex {"substring_chars": "abc"}',
        'start: "a\\n"i',
        r"start: /[a&&b]/",
        r"start: /[[:alpha:]]/",
        r"start: /\p{L}/",
        r"start: /^a$/",
        r"start: /\bword/",
        r"start: /a(?=b)/",
        r"start: /a b/x",
        "start: A\n%import python.A",
        "start: A\n%import common.ESCAPED_STRING -> A",
        'start: "unclosed',
    ],
)
def test_what_has_no_such_form(grammar: str) -> None:
    assert escaped_grammar(grammar) is None


def test_comments_with_quotes_are_no_grammar() -> None:
    assert escaped_grammar('// a "comment\nstart: "a" # another "\n') == '\nstart: "a" \n'


def tool(grammar: str = PATCH_GRAMMAR) -> Tool:
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return Tool("apply_patch", "Edits.", parameters, False, "tools[0].format", grammar)


def call(text: str) -> str:
    arguments = json.dumps({"input": text}, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "apply_patch", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_calls_of_a_tool_with_a_grammar_are_masked(mode: str) -> None:
    constraint = Constraint(tools=(tool(),), choice=ToolChoice(mode))  # type: ignore[arg-type]
    assert constraint.binding
    grammar = COMPILER.compile(constraint)
    assert accepts(grammar, call(PATCH))
    assert not accepts(grammar, call("Not a patch."))
    assert accepts(grammar, "Only text.") is (mode == "auto")


@pytest.mark.parametrize("grammar", ["start: ~/a/", "start: nonsense(", 'start: "\\n"i'])
def test_a_grammar_that_cannot_be_masked_leaves_any_text(grammar: str) -> None:
    compiled = COMPILER.compile(Constraint(tools=(tool(grammar),), choice=ToolChoice("required")))
    assert accepts(compiled, call("Anything."))


def test_the_judge_agrees() -> None:
    form = OutputFormat("lark", PATCH_GRAMMAR, "tools[0].format")
    assert COMPILER.accepts(form, PATCH)
    assert not COMPILER.accepts(form, "Not a patch.")
    assert TOKENIZER.size
