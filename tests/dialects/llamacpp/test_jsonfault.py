"""The words for malformed bodies, against answers recorded from llama-server's own parser."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.llamacpp.jsonfault import LONGEST, parse_fault

RECORDED = json.loads((Path(__file__).parent / "json_faults.json").read_text())


@pytest.mark.parametrize(("body", "message"), RECORDED)
def test_recorded(body: str, message: str | None) -> None:
    found = parse_fault(bytes.fromhex(body))
    # How many replacement characters stand for broken bytes is the decoder's taste.
    assert _unmarked(found) == _unmarked(message)


def _unmarked(text: str | None) -> str | None:
    return text.replace("\ufffd", "") if text else text


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.booleans(),
)
def test_valid_json_has_no_fault(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert parse_fault(body) is None


@given(st.binary(max_size=64))
def test_anything_is_judged(body: bytes) -> None:
    message = parse_fault(body)
    assert message is None or message.startswith("[json.exception.")


def test_long_bodies_are_not_walked() -> None:
    assert parse_fault(b"[" * (LONGEST + 1)) is None
