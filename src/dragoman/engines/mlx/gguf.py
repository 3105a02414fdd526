"""Loads GGUF files of the llama, qwen2 and qwen3 architectures into mlx-lm's model classes. Knows no tokenizer.

Tensors stored as Q4_0, Q4_1 or Q8_0 become integers times a scale plus a bias, in groups of 32: exact in MLX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx import nn

from dragoman.core.errors import EngineFailure
from dragoman.engines.mlx.arrays import finish
from dragoman.engines.mlx.facts import ModelFacts
from dragoman.engines.mlx.gguf_config import GgufShape, config_of, shape_of
from dragoman.engines.mlx.gguf_header import BLOCKS, GgufHeader, read_header
from dragoman.engines.mlx.load import LoadedModel, import_mlx_lm
from dragoman.engines.mlx.precision import Dtype, on_cpu, target_of

_GROUP = 32
_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FACTORS = "rope_freqs.weight"
_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")

Weights = dict[str, mx.array]


def load_gguf(path: Path, dtype: Dtype = "auto") -> LoadedModel:
    """The model in `path`. Raises EngineFailure, naming llama.cpp as the way out, for what MLX cannot hold exactly."""
    header = read_header(path)
    _check_types(header, path)
    shape = shape_of(header, path)
    module = import_mlx_lm(f"models.{shape.architecture}")
    target = _target(header, dtype)
    try:
        arrays = cast("dict[str, mx.array]", mx.load(str(path), format="gguf"))
        weights = _weights(header, arrays, shape, path)
        model: Any = module.Model(module.ModelArgs.from_dict(config_of(shape)))
        if dtype == "quantized" or (dtype == "auto" and not on_cpu()):
            _pack(model, header)
            weights = {name: _cast(value, target) for name, value in weights.items()}
        else:
            weights = _unpacked(weights, header, target)
        _scale_rope(model, arrays, shape)
        model.eval()
        model.load_weights(list(_with_biases(model, weights).items()), strict=True)
        finish(model.parameters())
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise EngineFailure(f"{path} cannot be loaded as a {shape.architecture} model: {error}") from error
    return LoadedModel(model, _facts(header, shape))


def _check_types(header: GgufHeader, path: Path) -> None:
    unsupported = sorted({tensor.type for tensor in header.tensors} - set(BLOCKS))
    if unsupported:
        raise EngineFailure(
            f"{path} has {', '.join(unsupported)} tensors; MLX can hold {', '.join(BLOCKS)} exactly.",
            remedy="Serve it with llama.cpp (--engine llamacpp).",
        )


def _target(header: GgufHeader, dtype: Dtype) -> mx.Dtype:
    """The type of scales, norms and unpacked weights. Off the CPU the scales' own float16, unless all is float32."""
    named = target_of(dtype)
    if named is not None:
        return named
    return mx.float32 if on_cpu() or all(t.type == "F32" for t in header.tensors) else mx.float16


def _cast(value: mx.array, target: mx.Dtype) -> mx.array:
    return value.astype(target) if mx.issubdtype(value.dtype, mx.floating) else value


def _module_name(tensor: str) -> tuple[str, str] | None:
    """mlx-lm's path of a tensor's layer, and weight or bias; None for names no supported model has."""
    match = _NAME.fullmatch(tensor)
    if match is None:
        return None
    layer, stem, kind = match.groups()
    known = _TOP.get(stem) if layer is None else _LAYER.get(stem)
    if known is None:
        return None
    return (known if layer is None else f"model.layers.{layer}.{known}"), kind


def _weights(header: GgufHeader, arrays: Mapping[str, mx.array], shape: GgufShape, path: Path) -> Weights:
    """Everything the file holds under mlx-lm's names, packed as loaded: weight, scales and biases."""
    weights: Weights = {}
    for tensor in header.tensors:
        if tensor.name == _ROPE_FACTORS:
            continue
        place = _module_name(tensor.name)
        if place is None:
            raise EngineFailure(
                f"{path} has a tensor {tensor.name} that no {shape.architecture} model of mlx-lm knows.",
                remedy="Serve it with llama.cpp (--engine llamacpp).",
            )
        module, kind = place
        weights[f"{module}.{kind}"] = _rope_order(arrays[tensor.name], module, shape)
        if tensor.type in _BITS:
            stem = tensor.name.removesuffix(f".{kind}")
            for part in ("scales", "biases"):
                weights[f"{module}.{part}"] = _rope_order(arrays[f"{stem}.{part}"], module, shape)
    return weights


def _rope_order(value: mx.array, module: str, shape: GgufShape) -> mx.array:
    """Undo llama.cpp's reordering of query and key rows.

    Its llama architecture rotates neighbouring pairs, mlx-lm rotates halves; the converter interleaves the halves of
    each head. Only whole rows move, so packed weights and their scales move the same way. Other architectures keep
    halves.
    """
    heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(module.rpartition(".")[2])
    if heads is None or shape.architecture != "llama":
        return value
    pairs = mx.unflatten(value, 0, (heads, value.shape[0] // heads // 2, 2))
    return mx.flatten(pairs.swapaxes(1, 2), 0, 2)


def _packed(header: GgufHeader) -> dict[str, int]:
    """Bits per weight of every packed layer."""
    layers: dict[str, int] = {}
    for tensor in header.tensors:
        place = _module_name(tensor.name)
        if place is not None and tensor.type in _BITS:
            layers[place[0]] = _BITS[tensor.type]
    return layers


def _pack(model: Any, header: GgufHeader) -> None:
    """Turn the layers whose weights stay packed into their quantised form."""
    layers = _packed(header)

    def choice(path: str, _: Any) -> bool | dict[str, int]:
        return {"group_size": _GROUP, "bits": layers[path]} if path in layers else False

    cast(Any, nn).quantize(model, group_size=_GROUP, bits=4, class_predicate=choice)


def _unpacked(weights: Weights, header: GgufHeader, target: mx.Dtype) -> Weights:
    """Dense weights. Scales are widened first: the products are exact in float32 and would be rounded in float16."""
    dense = dict(weights)
    for module, bits in _packed(header).items():
        scales, biases = dense.pop(f"{module}.scales"), dense.pop(f"{module}.biases")
        dense[f"{module}.weight"] = mx.dequantize(
            dense[f"{module}.weight"],
            scales.astype(mx.float32),
            biases.astype(mx.float32),
            group_size=_GROUP,
            bits=bits,
        )
    return {name: _cast(value, target) for name, value in dense.items()}


def _with_biases(model: Any, weights: Weights) -> Weights:
    """mlx-lm's llama has a bias on all projections or none; a file may leave some out, which then are zero."""
    wanted = {name: value for name, value in _named(model).items() if name.endswith(".bias") and name not in weights}
    return weights | {name: mx.zeros_like(value) for name, value in wanted.items()}


def _named(model: Any) -> Weights:
    from dragoman.engines.mlx.precision import weights_of

    return dict(weights_of(model))


class FactorRope(nn.Module):
    """Rotary embedding whose wavelengths are stretched by factors from the file (Llama 3's long context)."""

    def __init__(self, dims: int, base: float, factors: mx.array) -> None:
        super().__init__()
        self._dims = dims
        self._freqs = base ** (mx.arange(0, dims, 2, dtype=mx.float32) / dims) * factors.astype(mx.float32)

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """Rotate `x` of shape (rows, heads, length, dims); `offset` is the position of its first token."""
        return mx.fast.rope(x, self._dims, traditional=False, base=None, scale=1.0, offset=offset, freqs=self._freqs)


def _scale_rope(model: Any, arrays: Mapping[str, mx.array], shape: GgufShape) -> None:
    factors = arrays.get(_ROPE_FACTORS)
    if factors is None:
        return
    if shape.rope_scaling is not None:
        raise ValueError("rope factors together with another rope scaling are not supported")
    for layer in model.layers:
        layer.self_attn.rope = FactorRope(shape.head_dim, shape.rope_base, factors)


def _facts(header: GgufHeader, shape: GgufShape) -> ModelFacts:
    sizes: dict[str, int] = {}
    for tensor in header.tensors:
        if tensor.name != _ROPE_FACTORS:
            sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.elements
    return ModelFacts(
        architecture=shape.architecture,
        parameters=sum(sizes.values()),
        vocab_size=shape.vocab_size,
        embedding_length=shape.width,
        trained_context=shape.context,
        quantization=max(sizes, key=lambda kind: sizes[kind], default=""),
    )
