"""The state of a row as a file: the arrays of its caches as safetensors, and what else they consist of as JSON beside
them. Knows cache objects, no model, no row and no prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import msgspec
from msgspec import Struct

from dragoman.engines.mlx.load import import_mlx_lm
from dragoman.engines.mlx.packed import PackedCache
from dragoman.engines.mlx.row import LayerCaches

_library: Any = import_mlx_lm("models.cache")
_KEY = "caches"

_CLASSES: dict[str, type] = {
    "KVCache": _library.KVCache,
    "ConcatenateKVCache": _library.ConcatenateKVCache,
    "RotatingKVCache": _library.RotatingKVCache,
    "ChunkedKVCache": _library.ChunkedKVCache,
    "ArraysCache": _library.ArraysCache,
    "CacheList": _library.CacheList,
    "PackedCache": PackedCache,
}
_NAMES = {kind: name for name, kind in _CLASSES.items()}
_NUMBERS: dict[str, tuple[str, ...]] = {
    "KVCache": ("offset",),
    "ConcatenateKVCache": ("offset",),
    "RotatingKVCache": ("max_size", "keep", "offset", "_idx"),
    "ChunkedKVCache": ("chunk_size", "start_position", "offset"),
    "PackedCache": ("group_size", "bits", "used"),
}
"""What each class holds beside arrays; the first ones are what it is made with."""
_MADE_WITH = {"RotatingKVCache": 2, "ChunkedKVCache": 1, "PackedCache": 2}


class Layer(Struct, frozen=True):
    """One cache object. `arrays` names those it holds, by place; a place that holds none is not in it."""

    kind: str
    numbers: dict[str, int] = {}
    arrays: dict[str, str] = {}
    size: int = 0
    parts: tuple[Layer, ...] = ()


def write_caches(caches: LayerCaches, file: Path) -> None:
    """Raises OSError, KeyError for a class that is not known."""
    arrays: dict[str, mx.array] = {}
    layers = tuple(_described(cache, f"{index}", arrays) for index, cache in enumerate(caches))
    # Something must be there for the format's sake, also of caches that hold nothing yet.
    arrays[_KEY] = mx.zeros((1,))
    cast("Any", mx).save_safetensors(str(file), arrays, {_KEY: msgspec.json.encode(layers).decode()})


def read_caches(file: Path) -> LayerCaches:
    """Raises ValueError for what is no such file."""
    try:
        found = cast("Any", mx).load(str(file), format="safetensors", return_metadata=True)
        arrays, notes = cast("tuple[dict[str, mx.array], dict[str, str]]", found)
        layers = msgspec.json.decode(notes[_KEY].encode(), type=tuple[Layer, ...])
        return [_made(layer, arrays) for layer in layers]
    except (RuntimeError, KeyError, msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"not the state of a row: {error}") from error


def _described(cache: Any, name: str, arrays: dict[str, mx.array]) -> Layer:
    kind = _NAMES[type(cache)]
    if kind == "CacheList":
        parts = enumerate(cache.caches)
        return Layer(kind, parts=tuple(_described(part, f"{name}.{index}", arrays) for index, part in parts))
    places: dict[str, str] = {}
    for place, array in _held(cache):
        places[place] = f"{name}.{place}"
        arrays[f"{name}.{place}"] = array
    numbers = {number: int(getattr(cache, number)) for number in _NUMBERS.get(kind, ())}
    return Layer(kind, numbers, places, size=len(cache.cache) if kind == "ArraysCache" else 0)


def _held(cache: Any) -> Iterator[tuple[str, mx.array]]:
    """The arrays of a cache that is no list, by their places."""
    if isinstance(cache, PackedCache):
        found = {f"parts.{index}": part for index, part in enumerate(cache.parts or ())}
    elif isinstance(cache, _library.ArraysCache):
        found = {f"cache.{index}": value for index, value in enumerate(cache.cache)}
        found |= {"left_padding": cache.left_padding, "lengths": cache.lengths}
    else:
        found = {"keys": cache.keys, "values": cache.values}
    for place, value in found.items():
        if value is not None:
            yield place, mx.contiguous(value)


def _made(layer: Layer, arrays: dict[str, mx.array]) -> Any:
    kind = _CLASSES[layer.kind]
    if layer.kind == "CacheList":
        return kind(*(_made(part, arrays) for part in layer.parts))
    if layer.kind == "ArraysCache":
        cache: Any = kind(layer.size)
    else:
        numbers = [layer.numbers[name] for name in _NUMBERS[layer.kind]]
        cache = kind(*numbers[: _MADE_WITH.get(layer.kind, 0)])
    for name in _NUMBERS.get(layer.kind, ()):
        setattr(cache, name, layer.numbers[name])
    held = {place: arrays[name] for place, name in layer.arrays.items()}
    if layer.kind == "PackedCache":
        cache.parts = tuple(held[f"parts.{index}"] for index in range(len(held))) or None
    elif layer.kind == "ArraysCache":
        cache.cache = [held.get(f"cache.{index}") for index in range(layer.size)]
        cache.left_padding, cache.lengths = held.get("left_padding"), held.get("lengths")
    else:
        cache.keys, cache.values = held.get("keys"), held.get("values")
    return cache
