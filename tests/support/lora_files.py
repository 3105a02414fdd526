"""Small random LoRA adapters for the starter model, as GGUF files."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

_WIDTH, _INNER, _RANK = 576, 1536, 4


def write_lora(path: Path, *, seed: int, strength: float = 0.5, layers: tuple[int, ...] = (20, 25)) -> Path:
    """An adapter on the feed-forward output of some layers of SmolLM2-135M."""
    draw = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(_RANK))
    for layer in layers:
        name = f"blk.{layer}.ffn_down.weight"
        writer.add_tensor(f"{name}.lora_a", draw.normal(0, strength, (_RANK, _INNER)).astype(np.float32))
        writer.add_tensor(f"{name}.lora_b", draw.normal(0, strength, (_WIDTH, _RANK)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
