from hypothesis import given
from hypothesis import strategies as st

from dragoman.output.detokenise import Detokeniser
from tests.output.fakes import EOS, FakeVocabulary, cut_bytes


def decode(pieces: list[bytes]) -> list[str]:
    detokeniser = Detokeniser(FakeVocabulary(pieces))
    texts = [detokeniser.feed(token) for token in range(1, len(pieces) + 1)]
    return [*texts, detokeniser.flush()]


@given(st.text(max_size=30), st.lists(st.integers(0, 200)))
def test_any_split_of_a_text_decodes_to_it_without_half_characters(text: str, places: list[int]) -> None:
    texts = decode(cut_bytes(text.encode(), places))
    assert "".join(texts) == text
    assert texts[-1] == ""


@given(st.binary(max_size=40), st.lists(st.integers(0, 200)))
def test_any_split_of_any_bytes_decodes_as_at_once(data: bytes, places: list[int]) -> None:
    assert "".join(decode(cut_bytes(data, places))) == data.decode("utf-8", "replace")


def test_text_before_a_begun_character_waits_for_it() -> None:
    assert decode([b"a \xf0\x9f", b"\x98", b"\x80b"]) == ["", "", "a 😀b", ""]


def test_broken_characters_do_not_hold_text_for_ever() -> None:
    assert decode([b"\xf0"] * 4) == ["", "\ufffd", "\ufffd", "\ufffd", "\ufffd"]


def test_a_cut_tail_is_flushed_once() -> None:
    detokeniser = Detokeniser(FakeVocabulary([b"x\xe2\x80"]))
    assert detokeniser.feed(1) == ""
    assert detokeniser.incomplete
    assert detokeniser.flush() == "x\ufffd"
    assert detokeniser.flush() == ""
    assert not detokeniser.incomplete


def test_control_tokens_are_silent_unless_they_are_markers() -> None:
    vocabulary = FakeVocabulary([b"<|user|>", b"<think>", b"hi"], special=[1, 2])
    detokeniser = Detokeniser(vocabulary, ["<think>", ""])
    assert [detokeniser.feed(token) for token in (1, 2, 3, EOS, 99)] == ["", "<think>", "hi", "", ""]


def test_a_stop_token_is_silent_even_when_the_vocabulary_calls_it_ordinary() -> None:
    vocabulary = FakeVocabulary([])
    vocabulary.special = set()
    assert Detokeniser(vocabulary).feed(EOS) == ""


def test_a_control_token_inside_a_character_does_not_break_it() -> None:
    detokeniser = Detokeniser(FakeVocabulary([b"\xc3", b"<|x|>", b"\xa9"], special=[2]))
    assert [detokeniser.feed(token) for token in (1, 2, 3)] == ["", "", "é"]
