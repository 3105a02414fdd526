"""Cutting special tokens out of text."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.prompt.special_tokens import SpecialToken, SpecialTokens

TOKENS = [
    SpecialToken(1, "<a>", always=False),
    SpecialToken(2, "<a><b>", always=False),
    SpecialToken(3, "\u00e9\u00e9", always=True),
    SpecialToken(4, "<aa>", always=True),
    SpecialToken(5, "", always=True),
]
SPLITTER = SpecialTokens(TOKENS)
TEXTS = {token.id: token.text for token in TOKENS}


def test_longer_tokens_win() -> None:
    assert SPLITTER.split("x<a><b>y<a>", parse_special=True) == ["x", 2, "y", 1]


def test_the_longest_in_bytes_goes_first_wherever_it_is() -> None:
    overlapping = SpecialTokens([SpecialToken(1, "abcd", False), SpecialToken(2, "cd\u00e9\u00e9", False)])
    assert overlapping.split("abcd\u00e9\u00e9", parse_special=True) == ["ab", 2]


def test_plain_reading_keeps_those_that_belong_to_the_text() -> None:
    assert SPLITTER.split("<a>\u00e9\u00e9<aa>", parse_special=False) == ["<a>", 3, 4]


def test_nothing_gives_nothing() -> None:
    assert SPLITTER.split("", parse_special=True) == []
    assert SpecialTokens([]).split("text", parse_special=True) == ["text"]


@given(st.lists(st.sampled_from(["<a>", "<b>", "<a", ">", "\u00e9", "<aa>", "x", " "])).map("".join), st.booleans())
def test_pieces_spell_the_text(text: str, parse_special: bool) -> None:
    pieces = SPLITTER.split(text, parse_special=parse_special)
    assert "".join(TEXTS[piece] if isinstance(piece, int) else piece for piece in pieces) == text
    assert "" not in pieces
    found = {piece for piece in pieces if isinstance(piece, int)}
    assert parse_special or found <= {3, 4}
    assert not any("<aa>" in piece for piece in pieces if isinstance(piece, str))
