"""GGUF vocabularies, with small synthetic ones. That the ids are llama.cpp's is the matter of test_gguf_live.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import EngineFailure
from dragoman.core.vocabulary import GgufVocabulary
from dragoman.prompt.byte_level import CHARACTER_OF_BYTE, bytes_of_piece
from dragoman.prompt.gguf import gguf_tokenizer
from dragoman.prompt.pretokenizers import known_pre_tokenizers, pre_tokenizer
from tests.prompt.vocabularies import BOS, IM_END, byte_vocabulary, decode, tokenizer

TINY = tokenizer()


def pieces(some, text: str, **flags: bool) -> list[str]:
    flags = {"add_special": False, "parse_special": True, **flags}
    return [some.piece(token) for token in some.encode(text, **flags)]


def test_words_are_merged_by_rank() -> None:
    assert pieces(TINY, "hello world") == ["hello", "Ġworld"]
    assert pieces(TINY, "hell world12") == ["hell", "Ġworld", "12"]


def test_the_pre_tokenizer_decides_what_can_merge() -> None:
    assert pieces(tokenizer(pre="gpt-2"), "123") == ["123"]
    assert pieces(tokenizer(pre="smollm"), "123") == ["1", "2", "3"]


@given(st.text(), st.booleans())
def test_bytes_of_the_ids_are_the_text(text: str, parse_special: bool) -> None:
    assert decode(TINY, TINY.encode(text, add_special=False, parse_special=parse_special)) == text


def test_control_tokens_only_with_parse_special() -> None:
    assert pieces(TINY, "a<|im_end|>b") == ["a", "<|im_end|>", "b"]
    assert "<|im_end|>" not in pieces(TINY, "a<|im_end|>b", parse_special=False)


def test_user_defined_tokens_always() -> None:
    assert pieces(TINY, "a<think>b", parse_special=False) == ["a", "<think>", "b"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"add_bos": True}, [BOS]),
        ({"add_bos": True, "add_eos": True}, [BOS, IM_END]),
        ({"add_bos": False}, []),
        ({"add_bos": None, "pre": "gpt-2"}, []),
        ({"add_bos": None, "pre": "llama-bpe"}, [BOS]),
        ({"add_bos": None, "pre": "tekken"}, [BOS]),
        ({"add_bos": True, "bos_id": None}, []),
    ],
)
def test_what_is_put_around_a_text(flags: dict, expected: list[int]) -> None:
    some = tokenizer(**flags)
    assert some.encode("", add_special=True, parse_special=True) == expected
    assert some.encode("", add_special=False, parse_special=True) == []


def test_stop_tokens_by_metadata_and_by_spelling() -> None:
    spellings = {TINY.piece(token) for token in TINY.stop_tokens}
    assert spellings == {"<|im_end|>", "<|eot_id|>"}
    assert tokenizer(eos_id=5, eot_id=4).stop_tokens == {2, 3, 4, 5}
    assert tokenizer(eos_id=99999).stop_tokens == {2, 3}


def _with_tokens(*texts: str, kind: int = 1):
    base = byte_vocabulary()
    return gguf_tokenizer(byte_vocabulary(tokens=[*base.tokens, *texts], types=[*base.types, *[kind] * len(texts)]))


def test_a_control_spelling_is_control_whatever_the_file_says() -> None:
    some = _with_tokens("<end_of_turn>", "<|fim_prefix|>")
    end, fill = some.size - 2, some.size - 1
    assert some.is_special(end)
    assert some.is_special(fill)
    assert end in some.stop_tokens
    assert fill not in some.stop_tokens
    assert some.encode("<end_of_turn>", add_special=False, parse_special=True) == [end]


def test_harmony_end_closes_a_message_not_the_answer() -> None:
    some = _with_tokens("<|return|>", "<|call|>", "<|end|>", "<|channel|>", kind=3)
    first = some.size - 4
    assert {first, first + 1} <= some.stop_tokens
    assert first + 2 not in some.stop_tokens
    assert not some.is_special(first + 3)


def test_gemma_tool_response_makes_the_strike_through_tag_plain() -> None:
    some = _with_tokens("</s>", "<|tool_response>", kind=3)
    assert some.size - 2 not in some.stop_tokens
    assert not some.is_special(some.size - 2)


def test_missing_bytes_are_left_out_but_keep_neighbours_apart() -> None:
    base = byte_vocabulary()
    gap = base.tokens.index(CHARACTER_OF_BYTE[0x01])
    tokens = [text for index, text in enumerate(base.tokens) if index != gap]
    types = [kind for index, kind in enumerate(base.types) if index != gap]
    some = gguf_tokenizer(byte_vocabulary(tokens=tokens, types=types))
    assert pieces(some, "h\x01e") == ["h", "e"]
    assert pieces(some, "he") == ["he"]


def test_lone_surrogates_become_replacement_characters() -> None:
    assert decode(TINY, TINY.encode("a\ud800b", add_special=False, parse_special=True)) == "a\ufffdb"
    assert decode(TINY, TINY.encode("\ud83d\ude00", add_special=False, parse_special=True)) == "\U0001f600"


@pytest.mark.parametrize("token", [-1, 10**9, TINY.size])
def test_ids_outside_the_vocabulary_are_nothing(token: int) -> None:
    assert TINY.token_bytes(token) == b""
    assert TINY.piece(token) == ""
    assert not TINY.is_special(token)


def test_texts_of_bos_and_eos() -> None:
    assert (TINY.bos_token, TINY.eos_token) == ("<|begin_of_text|>", "<|im_end|>")
    assert (tokenizer(bos_id=None).bos_token, tokenizer(eos_id=None).eos_token) == ("", "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "rwkv"}, "rwkv"),
        ({"pre": "no-such-pre"}, "no-such-pre"),
        ({"merges": []}, "merges"),
        ({"tokens": []}, "vocabulary"),
    ],
)
def test_what_is_not_supported_is_named(changes: dict, words: str) -> None:
    with pytest.raises(EngineFailure, match=words) as caught:
        gguf_tokenizer(byte_vocabulary(**changes))
    assert caught.value.remedy


def test_every_known_pre_tokenizer_compiles_and_loses_nothing() -> None:
    text = "Ab's 12345 x\r\n  \u4f60\u597d \U0001f600!?/\tE\u0301"
    names = [name for name in known_pre_tokenizers() if pre_tokenizer(name).byte_level]
    assert len(names) > 50
    for name in names:
        some = tokenizer(pre=name)
        assert decode(some, some.encode(text, add_special=False, parse_special=True)) == text, name


def test_a_missing_pre_tokenizer_is_the_default_one() -> None:
    assert pre_tokenizer("") == pre_tokenizer("default")


def sentencepiece(**changes: object):
    words = ["\u2581", "a", "b", "ab", "\u2581ab", "c", "<", "s", ">", "<s", "\u2581\u2581"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words, "<tool>"]
    fields = {
        "model": "llama",
        "pre": "",
        "tokens": tokens,
        "types": [2, 3, 3, *[6] * 256, *[1] * len(words), 4],
        "merges": [],
        "scores": [0.0] * 259 + [-float(rank) for rank in range(len(words))] + [-1000.0],
        "bos_id": 1,
        "eos_id": 2,
    }
    return gguf_tokenizer(GgufVocabulary(**{**fields, **changes}))


def test_sentencepiece_merges_by_score_and_falls_back_to_bytes() -> None:
    some = sentencepiece()
    assert pieces(some, "ab c") == ["\u2581ab", "\u2581", "c"]
    assert pieces(some, "\u00e9") == ["\u2581", "<0xC3>", "<0xA9>"]
    assert decode(some, some.encode("ab \u00e9", add_special=False, parse_special=True)) == " ab \u00e9"


def test_sentencepiece_adds_bos_and_a_space_where_the_file_is_silent() -> None:
    some = sentencepiece()
    assert pieces(some, "ab", add_special=True) == ["<s>", "\u2581ab"]
    assert pieces(some, "ab</s>ab") == ["\u2581ab", "</s>", "\u2581ab"]
    assert pieces(sentencepiece(add_space_prefix=False), "ab</s>ab") == ["ab", "</s>", "ab"]
    assert pieces(sentencepiece(add_bos=False), "", add_special=True) == []


def test_sentencepiece_user_defined_tokens_need_no_parsing() -> None:
    assert pieces(sentencepiece(), "<tool>ab", parse_special=False) == ["<tool>", "\u2581ab"]


def test_sentencepiece_needs_one_score_for_each_token() -> None:
    with pytest.raises(EngineFailure, match="scores"):
        sentencepiece(scores=[0.0])


def test_gemma4_has_merges_over_raw_text() -> None:
    words = ["\u2581", "a", "b", "ab", "\n", "\n\n"]
    tokens = ["<pad>", "<bos>", "<eos>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    some = gguf_tokenizer(
        GgufVocabulary(
            model="gemma4",
            pre="",
            tokens=tokens,
            types=[3, 3, 3, *[6] * 256, *[1] * len(words)],
            merges=["a b", "\n \n"],
            scores=[],
            bos_id=1,
            eos_id=2,
        )
    )
    assert pieces(some, "ab\n\n ab\u00e9", add_special=True) == [
        "<bos>", "ab", "\n\n", "\u2581", "ab", "<0xC3>", "<0xA9>",
    ]  # fmt: skip


def test_wordpiece_takes_the_longest_tokens_between_cls_and_sep() -> None:
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "\u2581hello",
        "\u2581wor",
        "ld",
        "\u2581!",
        "\u2581\u4f60",
        "\u2581cafe",
    ]
    some = gguf_tokenizer(
        GgufVocabulary(
            model="bert",
            pre="",
            tokens=tokens,
            types=[3, 3, 3, 3, *[1] * 6],
            merges=[],
            scores=[],
            bos_id=2,
            unk_id=1,
        )
    )
    text = "Hello  WORLD!\u4f60 caf\u00e9 xyz"
    assert pieces(some, text, add_special=True) == [
        "[CLS]", "\u2581hello", "\u2581wor", "ld", "\u2581!", "\u2581\u4f60", "\u2581cafe", "[UNK]", "[SEP]",
    ]  # fmt: skip
    assert some.token_bytes(4) == b" hello"


@given(st.binary())
def test_byte_alphabet_is_a_bijection(raw: bytes) -> None:
    assert bytes_of_piece("".join(CHARACTER_OF_BYTE[byte] for byte in raw)) == raw


def test_pieces_outside_the_alphabet_keep_their_text() -> None:
    assert bytes_of_piece("a \u4f60\u0120") == "a \u4f60 ".encode()
