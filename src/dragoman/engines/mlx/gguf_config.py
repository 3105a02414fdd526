"""The shape of a GGUF model from its metadata, and the mlx-lm config that says the same. Reads no tensor data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.core.errors import EngineFailure
from dragoman.engines.mlx.gguf_header import GgufHeader

ARCHITECTURES = ("llama", "qwen2", "qwen3")
_ELSEWHERE = "Serve it with llama.cpp (--engine llamacpp)."


class GgufShape(Struct, frozen=True, kw_only=True):
    """Sizes as mlx-lm needs them; `rope_scaling` in mlx-lm's words, None for none."""

    architecture: str
    width: int
    layers: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    vocab_size: int
    context: int
    rope_base: float
    rope_scaling: dict[str, Any] | None
    tied: bool
    attention_bias: bool
    mlp_bias: bool


def shape_of(header: GgufHeader, path: Path) -> GgufShape:
    """Raises EngineFailure for an architecture or a trait that mlx-lm's model classes do not have."""
    reader = _Metadata(header, path)
    names = {tensor.name: tensor for tensor in header.tensors}
    if "token_embd.weight" not in names:
        raise EngineFailure(f"{path} has no token embedding, so it is no language model.")
    width, heads = reader.integer("embedding_length"), reader.integer("attention.head_count")
    head_dim = reader.integer("attention.key_length", width // max(heads, 1))
    _check_traits(reader, head_dim)
    return GgufShape(
        architecture=reader.architecture,
        width=width,
        layers=reader.integer("block_count"),
        inner=reader.integer("feed_forward_length"),
        heads=heads,
        kv_heads=reader.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        epsilon=reader.number("attention.layer_norm_rms_epsilon", 1e-5),
        vocab_size=names["token_embd.weight"].shape[0],
        context=reader.integer("context_length", 0),
        rope_base=reader.number("rope.freq_base", 10000.0),
        rope_scaling=_rope_scaling(reader),
        tied="output.weight" not in names,
        attention_bias="blk.0.attn_q.bias" in names or "blk.0.attn_output.bias" in names,
        mlp_bias="blk.0.ffn_gate.bias" in names,
    )


def config_of(shape: GgufShape) -> dict[str, Any]:
    """What config.json of the same model would hold."""
    return {
        "model_type": shape.architecture,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.inner,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.epsilon,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": shape.context or 4096,
        "rope_theta": shape.rope_base,
        "rope_scaling": shape.rope_scaling,
        "tie_word_embeddings": shape.tied,
        "attention_bias": shape.attention_bias,
        "mlp_bias": shape.mlp_bias,
    }


class _Metadata:
    """Typed look-ups under the architecture's prefix."""

    def __init__(self, header: GgufHeader, path: Path) -> None:
        self.values = header.metadata
        self.path = path
        self.architecture = str(header.metadata.get("general.architecture", ""))
        if self.architecture not in ARCHITECTURES:
            raise EngineFailure(
                f"{path} is a GGUF of architecture '{self.architecture}'; MLX loads {', '.join(ARCHITECTURES)}.",
                remedy=_ELSEWHERE,
            )

    def get(self, key: str) -> Any:
        return self.values.get(f"{self.architecture}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        """One number; a list (one entry per layer) only when all entries agree."""
        value = self.get(key)
        if isinstance(value, list) and value:
            distinct: set[Any] = set(value)  # pyright: ignore[reportUnknownArgumentType]
            if len(distinct) > 1:
                raise self.unsupported(f"{key} differs from layer to layer")
            value = next(iter(distinct))
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or value < 0:
            raise EngineFailure(f"{self.path} does not say its {self.architecture}.{key}.")
        return value

    def number(self, key: str, default: float) -> float:
        value = self.get(key)
        return float(value) if isinstance(value, int | float) else default

    def unsupported(self, trait: str) -> EngineFailure:
        return EngineFailure(f"{self.path} cannot be loaded by MLX: {trait}.", remedy=_ELSEWHERE)


def _check_traits(reader: _Metadata, head_dim: int) -> None:
    if reader.integer("expert_count", 0) > 0:
        raise reader.unsupported("it is a mixture of experts")
    if reader.integer("attention.value_length", head_dim) != head_dim:
        raise reader.unsupported("its keys and values differ in length")
    if reader.integer("rope.dimension_count", head_dim) != head_dim:
        raise reader.unsupported("it rotates only a part of each head")
    if reader.architecture == "qwen2" and head_dim * reader.integer("attention.head_count") != reader.integer(
        "embedding_length"
    ):
        raise reader.unsupported("its heads do not add up to its width")
    if int(reader.values.get("split.count", 0) or 0) > 1:  # pyright: ignore[reportArgumentType]
        raise reader.unsupported("it is split into several files")


def _rope_scaling(reader: _Metadata) -> dict[str, Any] | None:
    """Linear and YaRN scaling; factors in a tensor (Llama 3) are handled with the weights."""
    kind = reader.get("rope.scaling.type")
    factor = reader.number("rope.scaling.factor", reader.number("rope.scale_linear", 1.0))
    if kind in (None, "none", "linear"):
        return {"type": "linear", "factor": factor} if factor not in (0.0, 1.0) and kind != "none" else None
    if kind != "yarn":
        raise reader.unsupported(f"its rope scaling is {kind}")
    if reader.number("rope.scaling.attn_factor", 1.0) != 1.0:
        raise reader.unsupported("its rope scaling has an attention factor of its own")
    return {
        "type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": reader.integer(
            "rope.scaling.original_context_length", reader.integer("context_length")
        ),
        "beta_fast": reader.number("rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": reader.number("rope.scaling.yarn_beta_slow", 1.0),
    }
