"""Tiny GGUF files of the llama and qwen architectures, made from the weights of an mlx-lm model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.checkpoints import CONFIGS, random_model

_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

Weights = dict[str, NDArray[np.float32]]


def write_gguf(
    path: Path,
    *,
    family: str = "llama",
    kind: str = "F32",
    seed: int = 0,
    metadata: dict[str, Any] | None = None,
    rope_factors: NDArray[np.float32] | None = None,
    **changes: Any,
) -> Weights:
    """A GGUF with the weights of `random_model`; matrices stored as `kind` (a gguf type name), vectors as F32.

    Returns what the file really holds, unpacked, under mlx-lm's names and in mlx-lm's order of rows. `metadata`
    adds or overrides entries (with the architecture's prefix left out when they start with a dot).
    """
    import gguf
    from gguf.quants import dequantize, quantize
    from mlx.utils import tree_flatten

    config = CONFIGS[family] | changes
    arch = config["model_type"]
    writer = gguf.GGUFWriter(path, arch)
    for key, value in (_metadata(config) | (metadata or {})).items():
        _add(writer, f"{arch}{key}" if key.startswith(".") else key, value)
    held: Weights = {}
    for name, array in tree_flatten(random_model(config, seed).parameters()):
        value = np.array(array, dtype=np.float32)
        heads = _heads(name, config)
        stored = _interleaved(value, heads) if heads and arch == "llama" else value
        if value.ndim == 1:
            writer.add_tensor(_tensor_name(name), stored)
            held[name] = value
            continue
        quantization = gguf.GGMLQuantizationType[kind]
        data = quantize(stored, quantization)
        writer.add_tensor(_tensor_name(name), data, raw_dtype=quantization)
        back = dequantize(data, quantization).astype(np.float32)
        held[name] = _halves(back, heads) if heads and arch == "llama" else back
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def _metadata(config: dict[str, Any]) -> dict[str, Any]:
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return {
        ".embedding_length": config["hidden_size"],
        ".block_count": config["num_hidden_layers"],
        ".feed_forward_length": config["intermediate_size"],
        ".attention.head_count": config["num_attention_heads"],
        ".attention.head_count_kv": config["num_key_value_heads"],
        ".attention.key_length": head_dim,
        ".attention.value_length": head_dim,
        ".attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        ".context_length": config["max_position_embeddings"],
        ".rope.freq_base": config["rope_theta"],
        ".rope.dimension_count": head_dim,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(config["vocab_size"])],
    }


def _add(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _tensor_name(name: str) -> str:
    module, kind = name.rsplit(".", 1)
    if module in _TOP:
        return f"{_TOP[module]}.{kind}"
    layer, rest = module.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{_NAMES[rest]}.{kind}"


def _heads(name: str, config: dict[str, Any]) -> int:
    if ".q_proj." in name:
        return config["num_attention_heads"]
    return config["num_key_value_heads"] if ".k_proj." in name else 0


def _interleaved(value: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows as llama.cpp's llama architecture wants them: the two halves of each head alternate."""
    half = value.shape[0] // heads // 2
    return value.reshape(heads, 2, half, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def _halves(value: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    half = value.shape[0] // heads // 2
    return value.reshape(heads, half, 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
