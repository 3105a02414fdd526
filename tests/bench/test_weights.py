from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from bench.weights import SMALL_VOCAB, SPECIALS, WORDS, exported_tokenizer, silent_tokens, small_checkpoint
from dragoman.catalog.gguf import read_gguf
from dragoman.prompt.gguf import gguf_tokenizer
from dragoman.prompt.hf import load_hf_tokenizer

TEXTS = (
    "Hello <|im_start|>user\nIt's 1234 naïve 日本 don't  x\n\n y<|im_end|>",
    " " + " ".join(WORDS),
    "",
)


@pytest.mark.mlx
@pytest.mark.slow
def test_small_checkpoint_is_whole_and_made_once(tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    folder = small_checkpoint("packed", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name], "no scratch folder is left"
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert small_checkpoint("packed", tmp_path) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made

    from dragoman.engines.mlx.load import load_checkpoint

    facts = load_checkpoint(folder).facts
    assert facts.vocab_size == SMALL_VOCAB
    assert json.loads((folder / "config.json").read_text())["quantization"] == {"group_size": 32, "bits": 4}
    tokenizer = load_hf_tokenizer(folder)
    assert tokenizer.eos_token == "<|im_end|>"
    text = " " + " ".join(WORDS)
    assert len(tokenizer.encode(text, add_special=False, parse_special=True)) == len(WORDS), "a word is a token"


@pytest.mark.mlx
@pytest.mark.slow
def test_answers_of_the_small_checkpoint_never_end_and_are_text(tmp_path: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    folder = small_checkpoint("float32", tmp_path)
    silent = silent_tokens(Tokenizer.from_file(str(folder / "tokenizer.json")))
    head = mx.load(str(folder / "model.safetensors"))["lm_head.weight"]
    assert {0, 1, 2} <= set(silent)
    assert len(silent) == len(SPECIALS) + sum(
        not chr(byte).isprintable() or byte > 126 or byte == 32 for byte in range(256)
    )
    assert float(mx.abs(head[mx.array(silent)]).max()) == 0.0
    assert int((mx.abs(head).max(axis=1) == 0).sum()) == len(silent)


def test_the_exported_tokenizer_gives_our_ids(starter_gguf: Path) -> None:
    vocabulary = read_gguf(starter_gguf).vocabulary()
    ours, exported = gguf_tokenizer(vocabulary), exported_tokenizer(vocabulary)
    for text in TEXTS:
        assert exported.encode(text).ids == ours.encode(text, add_special=False, parse_special=True)
    assert len(ours.encode(TEXTS[1], add_special=False, parse_special=True)) == len(WORDS), "a word is a token"
