"""Tiny model files for catalog tests."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np


def write_gguf(path: Path) -> bytes:
    """A GGUF file with a header worth reading and one small tensor; returns its bytes."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_chat_template("{{ messages[0].content }}")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b"])
    writer.add_tensor("token_embd.weight", np.zeros((2, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def write_checkpoint_folder(folder: Path, **config: object) -> Path:
    """The look of a safetensors checkpoint; the weights are not readable."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": 512, **config}))
    (folder / "model.safetensors").write_bytes(b"\0" * 64)
    return folder
