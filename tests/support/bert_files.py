"""Tiny random BERT models: one set of weights as a checkpoint folder, as a GGUF file, and as a computation in NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, NDArray[np.float32]]

WORDS = ("the a cat dog sat on mat runs in park sun moon is red blue what who where barks sleeps eats fish").split()  # noqa: SIM905
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"bcdefghijklmnopqrstuvwxyz", "##s", "##ing", "."]

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
}


def random_bert(seed: int = 0, *, ranks: bool = False, first_position: int = 0, types: int = 2) -> Weights:
    """Weights by transformers' names, drawn wide enough that inputs differ."""
    draw = np.random.default_rng(seed)
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]

    def matrix(*shape: int, scale: float = 1.0) -> NDArray[np.float32]:
        return (scale * draw.normal(size=shape) / math.sqrt(shape[-1])).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": matrix(CONFIG["vocab_size"], width, scale=4.0),
        "embeddings.position_embeddings.weight": matrix(CONFIG["max_position_embeddings"] + first_position, width),
        "embeddings.token_type_embeddings.weight": matrix(types, width),
    }
    shapes = {"intermediate.dense": (inner, width), "output.dense": (width, inner)}
    linears = [f"attention.self.{part}" for part in ("query", "key", "value")] + ["attention.output.dense", *shapes]
    norms = ["embeddings.LayerNorm"]
    for layer in range(CONFIG["num_hidden_layers"]):
        name = f"encoder.layer.{layer}."
        norms += [f"{name}attention.output.LayerNorm", f"{name}output.LayerNorm"]
        for part in linears:
            rows, columns = shapes.get(part, (width, width))
            weights[f"{name}{part}.weight"] = matrix(rows, columns, scale=1.5)
            weights[f"{name}{part}.bias"] = matrix(rows, scale=0.5)
    for name in norms:
        weights[f"{name}.weight"] = 1 + matrix(width)
        weights[f"{name}.bias"] = matrix(width)
    if ranks:
        weights |= {"pooler.dense.weight": matrix(width, width), "pooler.dense.bias": matrix(width)}
        weights = {f"bert.{name}": value for name, value in weights.items()}
        weights |= {"classifier.weight": matrix(1, width, scale=3.0), "classifier.bias": matrix(1)}
    return weights


def write_bert_folder(
    folder: Path, weights: Weights, *, pooling: str = "mean", ranks: bool = False, **changes: Any
) -> Path:
    """A sentence-transformers folder (or a cross-encoder's, which has no modules)."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, str(folder / "model.safetensors"))
    config = CONFIG | changes
    if ranks:
        config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    else:
        modules = [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ]
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
        told = {name: kind == pooling for kind, name in modes.items()}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    (folder / "config.json").write_text(json.dumps(config))
    write_wordpiece(folder)
    return folder


def write_wordpiece(folder: Path) -> None:
    """tokenizer.json of an uncased BERT, which puts CLS and SEP around texts and pairs."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {text: index for index, text in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.add_special_tokens(VOCABULARY[:5])
    tokenizer.save(str(folder / "tokenizer.json"))


_TENSORS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_TABLES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "pooler.dense": "cls",
    "classifier": "cls.output",
}
POOLINGS = ("none", "mean", "cls", "last", "rank")


def write_bert_gguf(path: Path, weights: Weights, *, pooling: str = "mean") -> Path:
    """The same model as llama.cpp's converter would write it, in float32."""
    import gguf

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("tiny bert")
    writer.add_context_length(CONFIG["max_position_embeddings"])
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_head_count(CONFIG["num_attention_heads"])
    writer.add_layer_norm_eps(CONFIG["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", POOLINGS.index(pooling))
    writer.add_file_type(0)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([_gguf_spelling(text) for text in VOCABULARY])
    writer.add_token_types([3 if text.startswith("[") else 1 for text in VOCABULARY])
    writer.add_token_type_count(CONFIG["type_vocab_size"])
    writer.add_uint32("tokenizer.ggml.unknown_token_id", 1)
    writer.add_uint32("tokenizer.ggml.seperator_token_id", 3)
    writer.add_uint32("tokenizer.ggml.padding_token_id", 0)
    writer.add_uint32("tokenizer.ggml.cls_token_id", 2)
    writer.add_uint32("tokenizer.ggml.bos_token_id", 2)
    writer.add_uint32("tokenizer.ggml.eos_token_id", 3)
    writer.add_uint32("tokenizer.ggml.mask_token_id", 4)
    for name, value in weights.items():
        writer.add_tensor(_gguf_name(name.removeprefix("bert.")), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_spelling(text: str) -> str:
    if text.startswith("["):
        return text
    return text[2:] if text.startswith("##") else f"\u2581{text}"


def _gguf_name(name: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem in _TABLES:
        return f"{_TABLES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_TENSORS[part]}.{kind}"


class Reference:
    """BERT as its paper and Vaswani et al. define it, one input at a time, in double precision."""

    def __init__(self, weights: Weights, config: dict[str, Any] = CONFIG) -> None:
        prefix = "bert." if any(name.startswith("bert.") for name in weights) else ""
        self._all = {name: np.asarray(value, np.float64) for name, value in weights.items()}
        self._of = {name.removeprefix(prefix): value for name, value in self._all.items()}
        self._config = config

    def hidden(self, ids: list[int], types: list[int] | None = None) -> Array:
        """One vector per token."""
        x = self._of["embeddings.word_embeddings.weight"][ids]
        x = x + self._of["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + self._of["embeddings.token_type_embeddings.weight"][types or [0] * len(ids)]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(self._config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}."
            attended = self._linear(self._attention(x, f"{name}attention.self."), f"{name}attention.output.dense")
            x = self._norm(x + attended, f"{name}attention.output.LayerNorm")
            inner = _gelu(self._linear(x, f"{name}intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")
        return x

    def embedding(self, ids: list[int], pooling: str = "mean") -> Array:
        """One vector of unit length."""
        rows = self.hidden(ids)
        pooled = {"mean": rows.mean(axis=0), "cls": rows[0], "last": rows[-1]}[pooling]
        return pooled / np.linalg.norm(pooled)

    def score(self, ids: list[int], types: list[int]) -> float:
        """The head's number."""
        pooled = np.tanh(self._linear(self.hidden(ids, types)[:1], "pooler.dense"))
        return float((pooled @ self._all["classifier.weight"].T + self._all["classifier.bias"])[0, 0])

    def _attention(self, x: Array, name: str) -> Array:
        heads = self._config["num_attention_heads"]
        query, key, value = (
            self._linear(x, name + part).reshape(len(x), heads, -1).swapaxes(0, 1) for part in ("query", "key", "value")
        )
        weights = query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1])
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ value
        return mixed.swapaxes(0, 1).reshape(len(x), -1)

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._of[f"{name}.weight"].T + self._of[f"{name}.bias"]

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self._config["layer_norm_eps"])
        return scaled * self._of[f"{name}.weight"] + self._of[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
