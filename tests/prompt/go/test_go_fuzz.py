"""Templates come with requests: whatever they are, they render or are refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.prompt.go.fault import GoTemplateFault
from dragoman.prompt.go.parse import parse
from dragoman.prompt.go.run import Run

ROOT = {"Prompt": "hi", "Messages": [{"role": "user", "content": "a", "tool_calls": [{"x": 1}]}], "N": 3, "None": None}
WORDS = (
    "{{", "}}", "{{-", "-}}", "if", "else", "end", "range", "with", "break", "continue", "and", "or", "not",
    "eq", "len", "index", "slice", "printf", "json", ".Prompt", ".Messages", ".N", ".None", ".Role", ".", "$",
    "$x", ":=", "=", ",", "|", "(", ")", "1", "-2", "0x1f", "1.5", '"a\\n"', "`b`", "'c'", "true", "nil",
    "text", "/*", "*/",
)  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=24), st.sampled_from(["", " "]))
def test_it_renders_or_is_refused(words: list[str], apart: str) -> None:
    try:
        text = Run(dict(ROOT), cut="Prompt").text(parse(apart.join(words)))
    except GoTemplateFault:
        return
    assert isinstance(text, str)


@given(st.text())
def test_any_text_renders_or_is_refused(source: str) -> None:
    try:
        text = Run(dict(ROOT)).text(parse(source))
    except GoTemplateFault:
        return
    assert text == source or "{{" in source


@given(st.text(st.characters(exclude_characters="{")))
def test_plain_text_stays(source: str) -> None:
    assert Run({}).text(parse(source)) == source


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans())
def test_strings_are_read_as_go_writes_them(text: str, raw: bool) -> None:
    import json

    quoted = f"`{text}`" if raw else json.dumps(text)
    if raw and "`" in text:
        return
    if "\\ud" in quoted.lower() and not raw:
        return  # JSON writes what lies beyond the basic plane as two escapes, Go does not.
    assert Run({}).text(parse("{{ " + quoted + " }}")) == text
