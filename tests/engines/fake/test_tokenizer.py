"""The toy vocabulary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.vocabulary import Tokenizer
from dragoman.engines.fake import FakeRule, FakeScript, FakeTokenizer, ScriptedPiece

SCRIPT = FakeScript(
    rules=(
        FakeRule(pieces=("Hello", " world", "<think>", "a", ScriptedPiece(raw=(0xE2, 0x98)), "")),
        FakeRule(pieces=(ScriptedPiece(raw=tuple(b"<tool_call>")), ScriptedPiece(text="Oslo", top=((" Rome", -2.0),)))),
    ),
    control_tokens=("<|channel|>", "<|im_end|>"),
)
WORDS = FakeTokenizer(SCRIPT)


def conforms(tokenizer: Tokenizer) -> Tokenizer:
    return tokenizer


def test_it_is_a_tokenizer() -> None:
    assert conforms(WORDS) is WORDS


@given(st.text(), st.booleans(), st.booleans())
def test_encoding_keeps_every_byte(text: str, add_special: bool, parse_special: bool) -> None:
    ids = WORDS.encode(text, add_special=add_special, parse_special=parse_special)
    front = b"<|bos|>" if add_special else b""
    assert b"".join(map(WORDS.token_bytes, ids)) == front + text.encode("utf-8", "replace")


@given(st.lists(st.sampled_from(["<|im_start|>", "<|channel|>", "</think>", "<|im", "_end|>", "x", "é", "<"])))
def test_control_tokens_are_only_parsed_when_asked_for(parts: list[str]) -> None:
    text = "".join(parts)
    plain = WORDS.encode(text, add_special=False, parse_special=False)
    assert not any(WORDS.is_special(token) for token in plain)
    parsed = WORDS.encode(text, add_special=False, parse_special=True)
    expected = text.count("<|im_start|>") + text.count("<|channel|>") + text.count("<|im_end|>")
    assert sum(map(WORDS.is_special, parsed)) == expected


def test_tags_are_single_ordinary_tokens() -> None:
    ids = WORDS.encode("<think>", add_special=False, parse_special=False)
    assert len(ids) == 1
    assert not WORDS.is_special(ids[0])


def test_pieces_have_ids_of_their_own_but_share_what_is_there() -> None:
    assert WORDS.token_of("a") == ord("a")
    assert WORDS.token_of("<think>") == WORDS.special("<think>")
    hello = WORDS.token_of("Hello")
    assert hello >= 256
    assert WORDS.token_bytes(hello) == b"Hello"
    assert not WORDS.is_special(hello)


def test_bytes_never_name_a_special_token() -> None:
    plain = WORDS.token_of(ScriptedPiece(raw=tuple(b"<tool_call>")))
    assert WORDS.token_bytes(plain) == b"<tool_call>"
    assert plain != WORDS.special("<tool_call>")


def test_the_scripts_control_tokens_are_special() -> None:
    assert WORDS.is_special(WORDS.special("<|channel|>"))
    assert WORDS.token_bytes(WORDS.special("<|channel|>")) == b"<|channel|>"


def test_ends_are_stop_tokens_and_alternatives_are_in_the_vocabulary() -> None:
    assert {WORDS.token_bytes(token) for token in WORDS.stop_tokens} == {b"<|eos|>", b"<|im_end|>"}
    assert WORDS.bos_token == "<|bos|>"
    assert WORDS.eos_token == "<|eos|>"
    assert WORDS.token_bytes(WORDS.token_of(" Rome")) == b" Rome"


def test_spelling_and_ids_outside() -> None:
    assert WORDS.piece(0x0A) == "<0x0A>"
    assert WORDS.piece(0xC3) == "<0xC3>"
    assert WORDS.piece(ord("q")) == "q"
    assert WORDS.piece(WORDS.special("<|eos|>")) == "<|eos|>"
    assert WORDS.piece(WORDS.token_of(ScriptedPiece(raw=(0xE2, 0x98)))) == "\\xe2\\x98"
    for outside in (-1, WORDS.size):
        assert WORDS.token_bytes(outside) == b""
        assert WORDS.piece(outside) == ""
        assert not WORDS.is_special(outside)


def test_the_vocabulary_is_a_function_of_the_script() -> None:
    again = FakeTokenizer(SCRIPT)
    assert [again.token_bytes(token) for token in range(again.size)] == [
        WORDS.token_bytes(token) for token in range(WORDS.size)
    ]
