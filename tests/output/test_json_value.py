import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.output.json_value import JsonValue, ReadStatus
from tests.output.fakes import cut_at

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def read(pieces: list[str]) -> tuple[ReadStatus, str, str]:
    """Status, text given out, text left unread."""
    value = JsonValue()
    buffer = out = ""
    for piece in pieces:
        buffer += piece
        used = value.feed(buffer, 0)
        buffer = buffer[used:]
        out += value.take()
    return value.status, out, buffer


@given(st.dictionaries(st.text(max_size=4), values, max_size=4), st.booleans(), st.lists(st.integers(0, 300)))
def test_valid_json_passes_unchanged_under_any_cut(value: dict[str, Any], ascii_only: bool, places: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
    assert read(cut_at(text + " tail", places)) == (ReadStatus.DONE, text, " tail")


@given(st.text('{}[]",:\\u0a1-. \ntrue', max_size=30), st.lists(st.integers(0, 40)))
def test_any_text_reads_alike_under_any_cut_and_gives_the_beginning_of_json(text: str, places: list[int]) -> None:
    whole = read([text])
    assert read(cut_at(text, places)) == whole
    assert read(list(text)) == whole
    if whole[0] is ReadStatus.DONE:
        json.loads(whole[1])


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ('{"a": "x\ny\tz\x01"}', '{"a": "x\\ny\\tz\\u0001"}'),
        ('{"a": True, "b": [None, False]}', '{"a": true, "b": [null, false]}'),
        ('{"a": [1, 2, ], }', '{"a": [1, 2]}'),
        (r'{"a": "it\'s \d \u12"}', r'{"a": "it' + r"'s \\d \\u12" + '"}'),
    ],
)
def test_unambiguous_faults_are_repaired(text: str, repaired: str) -> None:
    assert read([text])[:2] == (ReadStatus.DONE, repaired)
    assert read(list(text))[:2] == (ReadStatus.DONE, repaired)
    json.loads(repaired)


@pytest.mark.parametrize(
    ("text", "good", "rest"),
    [
        ("{'a': 1}", "{", "'a': 1}"),
        ('{"a": nope}', '{"a": ', "nope}"),
        ('{"a": 01}', '{"a": ', "01}"),
        ('{"a" 1}', '{"a', "1}"),
        ('{"a": 1]', '{"a": 1', "]"),
        ('{"a": }', '{"a": ', "}"),
        ("[1 2]", "[1 ", "2]"),
        ("[,]", "[", ",]"),
    ],
)
def test_other_faults_break_where_they_are(text: str, good: str, rest: str) -> None:
    assert read([text]) == (ReadStatus.BROKEN, good, rest)


def test_an_endless_word_breaks() -> None:
    assert read(["[", *("1" * 600 for _ in range(3))])[0] is ReadStatus.BROKEN
