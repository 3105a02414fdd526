"""Tokenizers of Hugging Face checkpoint folders, built on the spot."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from dragoman.core.errors import EngineFailure
from dragoman.prompt.byte_level import CHARACTER_OF_BYTE
from dragoman.prompt.hf import HfTokenizer, load_hf_tokenizer
from tests.prompt.vocabularies import MERGES

SPECIAL = ("<|bos|>", "<|im_end|>", "<|endoftext|>")
BOS, IM_END, END_OF_TEXT, THINK = 267, 268, 269, 270


def byte_level() -> Tokenizer:
    tokens = [*CHARACTER_OF_BYTE.values(), *(merge.replace(" ", "") for merge in MERGES)]
    pairs = [tuple(merge.split(" ")) for merge in MERGES]
    raw = Tokenizer(models.BPE(vocab={text: token for token, text in enumerate(tokens)}, merges=pairs))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    raw.add_tokens([AddedToken("<think>", special=False)])
    raw.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", BOS)])
    return raw


def save(folder: Path, raw: Tokenizer, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    raw.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> HfTokenizer:
    folder = tmp_path_factory.mktemp("model")
    config = {"bos_token": {"content": "<|bos|>"}, "eos_token": "<|im_end|>"}
    return load_hf_tokenizer(save(folder, byte_level(), tokenizer_config=config))


def test_special_tokens_by_flag(plain: HfTokenizer) -> None:
    text = "hello<|im_end|> world"
    assert plain.encode(text, add_special=False, parse_special=True) == [258 + 1, IM_END, 264]
    spelled = plain.encode(text, add_special=False, parse_special=False)
    assert IM_END not in spelled
    assert b"".join(plain.token_bytes(token) for token in spelled) == text.encode()


def test_added_tokens_that_are_not_special_are_always_parsed(plain: HfTokenizer) -> None:
    assert plain.encode("<think>", add_special=False, parse_special=False) == [THINK]


def test_the_post_processor_is_obeyed(plain: HfTokenizer) -> None:
    assert plain.encode("", add_special=True, parse_special=True) == [BOS]
    assert plain.encode("", add_special=True, parse_special=False) == [BOS]
    assert plain.encode("", add_special=False, parse_special=True) == []


def test_parse_modes_do_not_disturb_each_other(plain: HfTokenizer) -> None:
    wrong: list[bool] = []

    def work(parse: bool) -> None:
        for _ in range(300):
            ids = plain.encode("a<|im_end|>", add_special=False, parse_special=parse)
            wrong.append((IM_END in ids) != parse)

    threads = [threading.Thread(target=work, args=(parse,)) for parse in (True, False, True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 1200
    assert not any(wrong)


@given(text=st.text())
def test_bytes_of_the_ids_are_the_text(plain: HfTokenizer, text: str) -> None:
    for parse in (True, False):
        ids = plain.encode(text, add_special=False, parse_special=parse)
        assert b"".join(plain.token_bytes(token) for token in ids) == text.encode()


def test_texts_and_kinds(plain: HfTokenizer) -> None:
    assert (plain.bos_token, plain.eos_token, plain.size) == ("<|bos|>", "<|im_end|>", 271)
    assert plain.token_bytes(BOS) == b"<|bos|>"
    assert plain.is_special(BOS)
    assert not plain.is_special(THINK)
    assert plain.piece(264) == "\u0120world"
    assert plain.token_bytes(264) == b" world"
    assert (plain.piece(-1), plain.token_bytes(10**6)) == ("", b"")


def test_lone_surrogates_become_replacement_characters(plain: HfTokenizer) -> None:
    ids = plain.encode("\ud800", add_special=False, parse_special=True)
    assert b"".join(plain.token_bytes(token) for token in ids) == "\ufffd".encode()


def test_stop_tokens_come_from_every_file(tmp_path: Path) -> None:
    folder = save(
        tmp_path,
        byte_level(),
        tokenizer_config={"eos_token": "<|bos|>"},
        generation_config={"eos_token_id": [5, 6]},
        config={"eos_token_id": 7, "text_config": {"eos_token_id": [8]}},
    )
    assert load_hf_tokenizer(folder).stop_tokens == {5, 6, 7, 8, BOS, IM_END, END_OF_TEXT}


def test_odd_files_beside_are_as_good_as_none(tmp_path: Path) -> None:
    folder = save(
        tmp_path,
        byte_level(),
        tokenizer_config="{broken",
        generation_config=[1],
        config={"eos_token_id": [10**9, True, "x", None]},
        special_tokens_map={"bos_token": "<|bos|>", "eos_token": {"content": "not in the vocabulary"}},
    )
    found = load_hf_tokenizer(folder)
    assert (found.bos_token, found.eos_token) == ("<|bos|>", "")
    assert found.stop_tokens == {IM_END, END_OF_TEXT}


def test_added_tokens_of_the_configuration(tmp_path: Path) -> None:
    decoder = {
        "271": {"content": "<|extra|>", "special": True},
        "400": {"content": "<|far|>", "special": True},
        "270": {"content": "<think>", "special": True},
    }
    found = load_hf_tokenizer(save(tmp_path, byte_level(), tokenizer_config={"added_tokens_decoder": decoder}))
    assert found.encode("<|extra|>", add_special=False, parse_special=True) == [271]
    assert found.size == 272
    assert found.is_special(THINK)


def test_truncation_and_padding_of_training_are_off(tmp_path: Path) -> None:
    raw = byte_level()
    raw.enable_truncation(2)
    raw.enable_padding(length=8)
    found = load_hf_tokenizer(save(tmp_path, raw))
    assert found.encode("hello hello", add_special=False, parse_special=True) == [259, 32 + 188, 259]


def test_sentencepiece_pieces(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "\u2581a"]
    raw = Tokenizer(
        models.BPE(
            vocab={text: token for token, text in enumerate(tokens)},
            merges=[("\u2581", "a")],
            byte_fallback=True,
            unk_token="<unk>",
        )
    )
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    raw.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    raw.add_special_tokens(["<unk>", "<s>", "</s>"])
    found = load_hf_tokenizer(save(tmp_path, raw, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"}))
    ids = found.encode("a \u00e9", add_special=False, parse_special=True)
    assert [found.piece(token) for token in ids] == ["\u2581a", "\u2581", "<0xC3>", "<0xA9>"]
    assert b"".join(found.token_bytes(token) for token in ids) == b" a \xc3\xa9"
    assert found.stop_tokens == {2}


def test_word_pieces(tmp_path: Path) -> None:
    tokens = ["[UNK]", "hello", "##ing"]
    raw = Tokenizer(models.WordPiece(vocab={text: token for token, text in enumerate(tokens)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece()
    found = load_hf_tokenizer(save(tmp_path, raw))
    ids = found.encode("helloing", add_special=False, parse_special=True)
    assert b"".join(found.token_bytes(token) for token in ids) == b" helloing"


def test_plain_pieces(tmp_path: Path) -> None:
    raw = Tokenizer(models.WordLevel(vocab={"x": 0, "\u00e9": 5}, unk_token="x"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    found = load_hf_tokenizer(save(tmp_path, raw))
    assert found.size == 6
    assert (found.token_bytes(5), found.token_bytes(3)) == ("\u00e9".encode(), b"")


@pytest.mark.parametrize("content", ["{broken", "[]", '{"model": {"type": "Nothing"}}', ""])
def test_a_broken_tokenizer_file_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(EngineFailure, match=r"tokenizer\.json") as caught:
        load_hf_tokenizer(tmp_path)
    assert caught.value.remedy


def test_a_missing_tokenizer_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match=r"no tokenizer\.json"):
        load_hf_tokenizer(tmp_path)
