"""Tiny random checkpoints of mlx-lm families, as folders with weights, tokenizer and chat template."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

VOCAB_SIZE = 320
CONTEXT = 512
STOP_TOKEN = 2
"""Id of <|im_end|>."""

_BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": CONTEXT,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": _BASE | {"model_type": "llama"},
    "llama_tied": _BASE | {"model_type": "llama", "tie_word_embeddings": True},
    "qwen2": _BASE | {"model_type": "qwen2"},
    "qwen3": _BASE | {"model_type": "qwen3", "head_dim": 16},
    # Sliding windows of 8 tokens, every third layer full: rotating caches wrap within a short test.
    "gemma3_text": _BASE
    | {
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 8,
        "sliding_window_pattern": 3,
    },
    "qwen3_moe": _BASE
    | {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 64,
        "norm_topk_prob": True,
    },
    "mamba": {
        "model_type": "mamba",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 128,
        "state_size": 8,
        "num_hidden_layers": 2,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 8,
        "tie_word_embeddings": False,
    },
    # Convolution and attention layers in turn.
    "lfm2": _BASE
    | {
        "model_type": "lfm2",
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "block_ff_dim": 96,
        "layer_types": ["conv", "full_attention"],
    },
    # Mamba 2 and attention side by side in each layer: one cache list per layer.
    "falcon_h1": _BASE
    | {
        "model_type": "falcon_h1",
        "head_dim": 16,
        "mamba_d_head": 16,
        "mamba_d_ssm": 64,
        "mamba_d_state": 16,
        "mamba_n_heads": 4,
        "lm_head_multiplier": 1.0,
        "embedding_multiplier": 1.0,
    },
    # Its rotary embedding computes with one position for all rows, so rows cannot be decoded together.
    "llama_dynamic_rope": _BASE | {"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}},
}

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_checkpoint(folder: Path, family: str = "llama", seed: int = 0, **changes: Any) -> Path:
    """A checkpoint of `family` (a key of CONFIGS) in `folder`, config entries overridden by `changes`.

    Weights are drawn wide enough that greedy continuations vary and top candidates are well apart.
    """
    config = CONFIGS[family] | {"eos_token_id": STOP_TOKEN, "bos_token_id": 1} | changes
    folder.mkdir(parents=True, exist_ok=True)
    model = random_model(config, seed)
    save_weights(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    return folder


def random_model(config: dict[str, Any], seed: int) -> Any:
    """The mlx-lm model of `config` with random float32 weights."""
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_unflatten

    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(config))
    drawn = []
    for name, value in tree_flatten(model.parameters()):
        if value.ndim == 1 and name.endswith("norm.weight"):
            drawn.append((name, value + 0.2 * mx.random.normal(value.shape)))
        elif name.endswith((".bias",)) and "dt" not in name:
            drawn.append((name, 0.2 * mx.random.normal(value.shape)))
        elif name.endswith("embed_tokens.weight") or "lm_head" in name:
            drawn.append((name, mx.random.normal(value.shape) * (0.5 if "embed" in name else 0.3)))
        elif name.endswith("proj.weight"):
            drawn.append((name, mx.random.normal(value.shape) * (1.6 / value.shape[-1] ** 0.5)))
    model.update(tree_unflatten(drawn))
    mx.eval(model.parameters())
    return model


def save_weights(folder: Path, model: Any, name: str = "model.safetensors") -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten

    mx.save_safetensors(str(folder / name), dict(tree_flatten(model.parameters())), metadata={"format": "mlx"})


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE of exactly VOCAB_SIZE ids: 3 special tokens, 256 bytes, the rest merges; ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=1,
    )
    words = "user assistant system the interpreter at the court speaks every language and answers in yours"
    tokenizer.train_from_iterator([words, "Hello world, how are you today? I am fine, thank you."], trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
