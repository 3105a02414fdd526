"""Which tokens were withheld, from the bytes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.backend.llamacpp.pieces import Boundary, Pieces

BYTES = Pieces([*(bytes([number]) for number in range(256)), b""])


def test_emoji_of_three_tokens() -> None:
    vocabulary = Pieces([b"\xf0\x9f", b"\x98", b"\x80", b"a", "é".encode()])
    assert vocabulary.withheld("😀".encode(), 2, (2,)) == (0, 1)
    assert vocabulary.withheld("😀".encode(), 1, (2,)) is None
    assert vocabulary.withheld(b"abc", 1, (3,)) is None


def test_a_first_piece_may_carry_whole_text_in_front() -> None:
    vocabulary = Pieces([b" \xf0\x9f", b"\x98\x80!", b" "])
    assert vocabulary.withheld(" 😀!".encode(), 1, (1,)) == (0,)


def test_the_last_piece_must_fit() -> None:
    assert BYTES.withheld("é".encode(), 1, (0x41,)) is None
    assert BYTES.withheld("é".encode(), 1, (999,)) is None


def test_of_several_spellings_the_one_learnt_first_wins() -> None:
    vocabulary = Pieces([b"\xf0", b"\x9f", b"\x98", b"\x80", b"\xf0\x9f", b"\x9f\x98"])
    assert vocabulary.withheld("😀".encode(), 2, (3,)) == (4, 2)


@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_byte_tokens_are_always_found(character: str) -> None:
    raw = character.encode()
    assert BYTES.withheld(raw, len(raw) - 1, raw[-1:]) == tuple(raw[:-1])


@given(st.binary(max_size=12))
def test_boundaries_are_where_a_decoder_holds_nothing_back(raw: bytes) -> None:
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    assert Boundary(BYTES).add(raw) == (decoder.getstate()[0] == b"")


@pytest.mark.parametrize(("raw", "ends"), [(b"a", True), (b"\xf0\x9f", False), (b"\xf0a", True), (b"\x80", True)])
def test_boundaries(raw: bytes, ends: bool) -> None:
    boundary = Boundary(BYTES)
    assert boundary.add(raw) is ends


def test_ids_outside_the_vocabulary_have_no_bytes() -> None:
    assert BYTES[-1] == BYTES[257] == b""
    assert BYTES.size == 257
