"""The number format a model computes in: unpacks quantised layers and casts weights. Knows no file and no sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import mlx.core as mx
from mlx import nn, utils

Dtype = Literal["auto", "float32", "bfloat16", "float16", "quantized"]

_FLOATS: dict[str, mx.Dtype] = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}


def on_cpu() -> bool:
    """Whether arrays are computed on the CPU."""
    return mx.default_device() == mx.Device(mx.cpu)


def target_of(dtype: Dtype) -> mx.Dtype | None:
    """The float type weights are unpacked and cast to; None leaves them as they are stored.

    `auto` is float32 on a CPU, where MLX has no fast kernels for anything smaller, and as stored elsewhere.
    """
    if dtype == "auto":
        return mx.float32 if on_cpu() else None
    return _FLOATS.get(dtype)


def convert(model: Any, target: mx.Dtype) -> None:
    """Unpack every quantised layer this engine knows the dense form of, then cast all floating weights, in place.

    Scales are widened first: a packed weight is an integer times a scale plus a bias, exact in float32 only.
    Weights the model insists on keeping (its `cast_predicate`) are not narrowed.
    """
    _unpack(model, target)
    allowed: Callable[[str], bool] = getattr(model, "cast_predicate", lambda _: True)
    cast_weights = [
        (name, value.astype(target) if _castable(value) and (target == mx.float32 or allowed(name)) else value)
        for name, value in weights_of(model)
    ]
    model.update(cast(Any, utils).tree_unflatten(cast_weights))


def weights_of(model: Any) -> list[tuple[str, mx.array]]:
    """All parameters by dotted name."""
    return cast("list[tuple[str, mx.array]]", cast(Any, utils).tree_flatten(model.parameters()))


def stored_type(model: Any) -> str:
    """The floating type most weights have, as checkpoints spell it (F32, BF16, F16)."""
    sizes: dict[mx.Dtype, int] = {}
    for _, value in weights_of(model):
        if _castable(value):
            sizes[value.dtype] = sizes.get(value.dtype, 0) + value.size
    names = {mx.float32: "F32", mx.bfloat16: "BF16", mx.float16: "F16"}
    return names.get(max(sizes, key=lambda kind: sizes[kind]), "") if sizes else ""


def _castable(value: mx.array) -> bool:
    return bool(mx.issubdtype(value.dtype, mx.floating))


def _unpack(model: Any, target: mx.Dtype) -> None:
    dense = [(name, _dense(module, target)) for name, module in model.named_modules() if _is_packed(module)]
    if dense:
        model.update_modules(cast(Any, utils).tree_unflatten(dense))


def _is_packed(module: Any) -> bool:
    return type(module) in _dense_classes()


def _dense_classes() -> dict[type, type]:
    from mlx_lm.models.switch_layers import (  # pyright: ignore[reportMissingTypeStubs]
        QuantizedSwitchLinear,
        SwitchLinear,
    )

    return {nn.QuantizedLinear: nn.Linear, nn.QuantizedEmbedding: nn.Embedding, QuantizedSwitchLinear: SwitchLinear}


def _dense(module: Any, target: mx.Dtype) -> Any:
    """The dense layer with the same weights."""
    scales, biases = module.scales, module.get("biases")
    if module.mode == "affine":
        scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
    weight = mx.dequantize(
        module.weight,
        scales,
        biases,
        group_size=module.group_size,
        bits=module.bits,
        mode=module.mode,
        global_scale=module.get("global_scale"),
        dtype=None if module.mode == "affine" else mx.float32,
    )
    kind: Any = _dense_classes()[type(module)]
    # Not through the constructor: it would draw random weights of the full size first.
    layer: Any = kind.__new__(kind)
    nn.Module.__init__(layer)
    layer.weight = weight.astype(target)
    if "bias" in module:
        layer.bias = module.bias
    return layer
