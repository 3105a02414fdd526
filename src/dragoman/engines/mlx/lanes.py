"""Finds out whether a model's rows can be decoded together. Runs a trial, keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from dragoman.engines.mlx.arrays import to_list
from dragoman.engines.mlx.batch import LanguageModel
from dragoman.engines.mlx.row import LayerCaches

_OPERATIONS = ("merge", "filter", "extend", "extract")
_PROMPTS = ((0,), (1, 2, 3, 0, 1))
_TOLERANCE = 0.25


def can_batch(model: LanguageModel, new_caches: Callable[[], LayerCaches]) -> bool:
    """Two rows of different length give together what each gives alone.

    Some caches have no batch form; some models have one but compute positions or masks in a way that only fits a
    single row. Both show in one trial step. Differences up to a quarter of the logits' spread are rounding.
    """
    if not all(_mergeable(cache) for cache in new_caches()):
        return False
    try:
        filled = [_filled(model, new_caches, prompt) for prompt in _PROMPTS]
        together = _together(model, filled)
        alone = mx.concatenate([_next(model, caches, 1) for caches in filled])
        error, spread = mx.max(mx.abs(together - alone)), mx.std(alone)
        values: list[float] = to_list(mx.stack([error, spread]))
    except Exception:
        return False
    return values[0] <= _TOLERANCE * values[1]


def _mergeable(cache: Any) -> bool:
    if hasattr(cache, "caches"):
        return all(_mergeable(inner) for inner in cache.caches)
    # A rotating cache that pins its first tokens has no batch form: merging would drop them.
    return hasattr(cache, "merge") and not getattr(cache, "keep", 0)


def _filled(model: LanguageModel, new_caches: Callable[[], LayerCaches], prompt: tuple[int, ...]) -> LayerCaches:
    caches = new_caches()
    model(mx.array([prompt]), cache=caches)
    return caches


def _next(model: LanguageModel, caches: LayerCaches, rows: int) -> mx.array:
    return model(mx.array([[0]] * rows), cache=caches)[:, -1, :].astype(mx.float32)


def _together(model: LanguageModel, rows: Sequence[LayerCaches]) -> mx.array:
    """Merging copies, so the single caches can still be used afterwards."""
    merged = [layer[0].merge(list(layer)) for layer in zip(*rows, strict=True)]
    if not all(hasattr(cache, name) for cache in merged for name in _OPERATIONS):
        raise TypeError("a merged cache cannot be changed")
    return _next(model, merged, len(rows))
