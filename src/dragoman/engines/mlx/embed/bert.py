"""BERT and its relatives (RoBERTa, XLM-R) as encoders: token ids to one vector per token, and to a relevance score.

Written from the published definitions: Devlin et al. 2018 (arXiv:1810.04805), Liu et al. 2019 (arXiv:1907.11692), with
the weight names transformers saves. Knows no file and no pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import mlx.core as mx
from mlx import nn

from dragoman.core.errors import EngineFailure

_ANCHOR = "embeddings.word_embeddings.weight"
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

Activation = Callable[[mx.array], mx.array]

_layers_of = cast("Any", nn)
_ACTIVATIONS: dict[str, Activation] = {
    "gelu": _layers_of.gelu,
    "gelu_new": _layers_of.gelu_approx,
    "gelu_pytorch_tanh": _layers_of.gelu_approx,
    "relu": _layers_of.relu,
    "silu": _layers_of.silu,
    "swish": _layers_of.silu,
}


class BertEncoder:
    """The encoder of one checkpoint. `config` is its config.json, `weights` all tensors by name. Raises EngineFailure
    for a checkpoint that is not of this family or lacks weights."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, mx.array]) -> None:
        renamed = {_current(name): value for name, value in weights.items()}
        anchor = next((name for name in renamed if name.endswith(_ANCHOR)), None)
        if anchor is None:
            raise EngineFailure("The weights hold no word embeddings of a BERT model.")
        self._prefix = anchor.removesuffix(_ANCHOR)
        self._weights = renamed
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self._activation = _activation(str(config.get("hidden_act", "gelu")))
        self._first_position = _first_position(config)
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise EngineFailure("Relative positions are not known here.")
        missing = [name for name in self._expected() if name not in renamed]
        if missing:
            raise EngineFailure(f"The weights lack {len(missing)} tensors, among them {missing[0]}.")

    @property
    def width(self) -> int:
        """Numbers of one vector."""
        return int(self._of(_ANCHOR).shape[1])

    @property
    def positions(self) -> int:
        """Tokens one input may have."""
        return int(self._of("embeddings.position_embeddings.weight").shape[0]) - self._first_position

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return int(self._of(_ANCHOR).shape[0])

    def __call__(self, ids: mx.array, types: mx.array, lengths: mx.array) -> mx.array:
        """Vectors (inputs, tokens, width) of ids padded at the right; `lengths` of the inputs without padding."""
        length = ids.shape[1]
        places = mx.arange(length)
        visible = (places[None, :] < lengths[:, None])[:, None, None, :]
        x = self._of(_ANCHOR)[ids]
        x = x + self._of("embeddings.position_embeddings.weight")[places + self._first_position]
        x = x + self._of("embeddings.token_type_embeddings.weight")[types]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(self._layers):
            x = self._layer(x, f"encoder.layer.{layer}.", visible)
        return x

    def scores(self, hidden: mx.array) -> mx.array:
        """One number per input from the head of a cross-encoder: BERT's on its pooler, RoBERTa's with its own layer."""
        first = hidden[:, 0]
        if "classifier.out_proj.weight" in self._weights:
            inner = mx.tanh(self._linear(first, "classifier.dense", bare=True))
            return self._linear(inner, "classifier.out_proj", bare=True)[:, 0]
        pooled = mx.tanh(self._linear(first, "pooler.dense"))
        return self._linear(pooled, "classifier", bare=True)[:, 0]

    def _layer(self, x: mx.array, name: str, visible: mx.array) -> mx.array:
        attended = self._linear(self._attention(x, f"{name}attention.self.", visible), f"{name}attention.output.dense")
        x = self._norm(x + attended, f"{name}attention.output.LayerNorm")
        inner = self._activation(self._linear(x, f"{name}intermediate.dense"))
        return self._norm(x + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _attention(self, x: mx.array, name: str, visible: mx.array) -> mx.array:
        head = x.shape[-1] // self._heads

        def split(part: str) -> mx.array:
            parts = mx.unflatten(self._linear(x, name + part), -1, (self._heads, head))
            return mx.swapaxes(parts, 1, 2)

        mixed = mx.fast.scaled_dot_product_attention(
            split("query"), split("key"), split("value"), scale=head**-0.5, mask=visible
        )
        return mx.flatten(mx.swapaxes(mixed, 1, 2), -2)

    def _linear(self, x: mx.array, name: str, *, bare: bool = False) -> mx.array:
        prefix = "" if bare else self._prefix
        return x @ self._weights[f"{prefix}{name}.weight"].T + self._weights[f"{prefix}{name}.bias"]

    def _norm(self, x: mx.array, name: str) -> mx.array:
        return mx.fast.layer_norm(x, self._of(f"{name}.weight"), self._of(f"{name}.bias"), self._epsilon)

    def _of(self, name: str) -> mx.array:
        return self._weights[self._prefix + name]

    def _expected(self) -> list[str]:
        parts = [
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
            "attention.output.LayerNorm",
            "intermediate.dense",
            "output.dense",
            "output.LayerNorm",
        ]
        names = [f"encoder.layer.{layer}.{part}" for layer in range(self._layers) for part in parts]
        pairs = [f"{name}.{kind}" for name in ("embeddings.LayerNorm", *names) for kind in ("weight", "bias")]
        tables = ["embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"]
        return [self._prefix + name for name in (*tables, *pairs)]


def _activation(name: str) -> Activation:
    if name not in _ACTIVATIONS:
        raise EngineFailure(f"The activation '{name}' is not known here.")
    return _ACTIVATIONS[name]


def _first_position(config: Mapping[str, Any]) -> int:
    """RoBERTa counts positions from after the padding id."""
    return 0 if config.get("model_type") == "bert" else int(config.get("pad_token_id", 1)) + 1


def _current(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
