"""The GGUF header reader against files written by the gguf package."""

from __future__ import annotations

import contextlib
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.catalog.gguf import read_gguf
from dragoman.core.errors import EngineFailure

TOKENS = ["<s>", "</s>", "Ġa", "é", "😀"]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_file_type(2)
    writer.add_chat_template("{{ messages }}")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    writer.add_tensor("token_embd.weight", np.zeros((5, 32), np.float32))
    writer.add_tensor("norm", np.zeros(32, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_reads_what_was_written(tiny: Path) -> None:
    header = read_gguf(tiny)
    assert header.architecture == "llama"
    assert header.quantization == "Q4_0"
    assert header.number("context_length") == 128
    assert header.number("no_such_key") == 0
    assert header.chat_template == {"default": "{{ messages }}"}
    assert header.parameters == 5 * 32 + 32
    assert [(tensor.name, tensor.shape, tensor.type) for tensor in header.tensors] == [
        ("token_embd.weight", (32, 5), "F32"),
        ("norm", (32,), "F16"),
    ]


def test_vocabulary(tiny: Path) -> None:
    vocabulary = read_gguf(tiny).vocabulary()
    assert vocabulary.tokens == TOKENS
    assert vocabulary.types == [3, 3, 1, 1, 1]
    assert (vocabulary.model, vocabulary.pre, vocabulary.merges) == ("gpt2", "smollm", ["a b"])
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.add_bos, vocabulary.add_eos) == (0, 1, True, None)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGML\x03\0\0\0", b"GGUF\x09\0\0\0" + b"\0" * 16, b"\x7fELF" * 9])
def test_no_gguf_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineFailure, match=r"x\.gguf"):
        read_gguf(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="cannot be read"):
        read_gguf(tmp_path / "none.gguf")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_engine_failure_or_harmless(tiny: Path, data: st.DataObject) -> None:
    content = bytearray(tiny.read_bytes()[:900])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tiny.with_name("damaged.gguf")
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with contextlib.suppress(EngineFailure):
        assert read_gguf(path).metadata is not None


def test_starter_model(starter_gguf: Path) -> None:
    header = read_gguf(starter_gguf)
    assert (header.architecture, header.quantization, header.parameters) == ("llama", "Q4_1", 134_515_008)
    assert len(header.vocabulary().tokens) == 49_152
