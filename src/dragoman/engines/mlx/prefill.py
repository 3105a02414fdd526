"""Prompts of several rows read in one pass over the weights. Knows rows and their caches, no scheduler.

The new tokens are padded on the right, where causal attention of the tokens before does not look; what rows already
hold is padded on the left, as in decoding. Each row then gets caches of its own, and only when all went well, so that
a pass that fails has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from msgspec import Struct

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec
from dragoman.engines.mlx.arrays import finish, to_list
from dragoman.engines.mlx.batch import LanguageModel
from dragoman.engines.mlx.caches import compact, copied, window_of
from dragoman.engines.mlx.load import import_mlx_lm
from dragoman.engines.mlx.packed import PackedCache
from dragoman.engines.mlx.row import LayerCaches, Row

_library: Any = import_mlx_lm("models.cache")
_PADDABLE = (_library.KVCache, _library.RotatingKVCache, PackedCache)
"""A recurrent state would take the padding in."""
_MOST = 512
"""Tokens of one pass, padding included."""
_WASTE = 0.25
"""Padding may be so much of the tokens it is added to."""
_HELD_ALIKE = 512
"""Rows are read together only when what they hold is of about the same length, in steps of so many tokens."""
_LONGEST = 2048
"""Tokens; a longer row is read alone: copying its cache into a batch would cost what the shared pass saves."""
_TOLERANCE = 0.25
_TRIED = (((0,), (1, 2, 3)), ((1, 2, 3, 0), (1,)))


class Part(Struct, frozen=True):
    """The next `count` prompt tokens of a row."""

    row: Row
    count: int


def can_join(part: Part) -> bool:
    """Whether these tokens can be read in a pass with other rows'."""
    row, count = part.row, part.count
    if row.caches is None or row.spec.prompt_logprobs is not None:
        return False
    return count <= _MOST // 2 and row.fed + count <= _LONGEST and all(type(cache) in _PADDABLE for cache in row.caches)


def grouped(parts: Sequence[Part]) -> list[list[Part]]:
    """Those that are worth reading together, in groups of two and more; all are such that `can_join`."""
    groups = list[list[Part]]()
    for part in sorted(parts, key=lambda part: (*_kind(part), -part.count)):
        if groups and _fit([*groups[-1], part]):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [group for group in groups if len(group) > 1]


def read_together(model: LanguageModel, parts: Sequence[Part]) -> mx.array:
    """Feed each row its tokens; the logits, uncomputed, of shape (rows, longest count, vocabulary), of which those past
    a row's count mean nothing. No row has changed when this raises."""
    width, held = max(part.count for part in parts), max(part.row.fed for part in parts)
    joint = _joined([part.row.caches or [] for part in parts], held)
    logits = model(mx.array([_padded(part, width) for part in parts]), cache=joint)
    shares = list[LayerCaches]()
    arrays = list[mx.array]()
    for line, part in enumerate(parts):
        span = slice(held - part.row.fed, held + part.count)
        shares.append([_share(own, cache, line, span) for own, cache in zip(part.row.caches or [], joint, strict=True)])
        arrays += compact(shares[-1])
    finish(arrays)
    for part, caches in zip(parts, shares, strict=True):
        part.row.caches = caches
        part.row.fed += part.count
    return logits


def can_read_together(model: LanguageModel, new_caches: Callable[[], LayerCaches]) -> bool:
    """Two rows of different length, begun and continued together, come to the logits each comes to alone; differences
    up to a quarter of their spread are rounding. False for caches that cannot be padded."""
    if not all(type(cache) in _PADDABLE for cache in new_caches()):
        return False
    rows = [_trial_row(begun + more, new_caches()) for begun, more in _TRIED]
    try:
        read_together(model, [Part(row, len(begun)) for row, (begun, _) in zip(rows, _TRIED, strict=True)])
        logits = read_together(model, [Part(row, len(more)) for row, (_, more) in zip(rows, _TRIED, strict=True)])
        together = mx.stack([logits[line, len(more) - 1] for line, (_, more) in enumerate(_TRIED)])
        alone = mx.stack([model(mx.array([row.spec.prompt[:-1]]), cache=new_caches())[0, -1] for row in rows])
        together, alone = together.astype(mx.float32), alone.astype(mx.float32)
        error, spread = to_list(mx.stack([mx.max(mx.abs(together - alone)), mx.std(alone)]))
    except Exception:
        return False
    return bool(error <= _TOLERANCE * spread)


def _kind(part: Part) -> tuple[bool, int]:
    return part.row.packed, part.row.fed // _HELD_ALIKE


def _fit(group: Sequence[Part]) -> bool:
    """Whether a group is of one kind, and neither too large nor too uneven; a window must hold all of it, because what
    falls out of one is not where the padding was."""
    if len({_kind(part) for part in group}) > 1:
        return False
    width, held = max(part.count for part in group), max(part.row.fed for part in group)
    windows = [window_of(cache) for part in group for cache in part.row.caches or []]
    if any(window is not None and held + width >= window for window in windows):
        return False
    return len(group) * width <= min(_MOST, (1 + _WASTE) * sum(part.count for part in group))


def _joined(rows: Sequence[LayerCaches], held: int) -> LayerCaches:
    """One cache per layer for all rows. Empty ones need no padding, so a plain cache, which knows no rows, will do."""
    if not held:
        return [copied(cache) for cache in rows[0]]
    return [layer[0].merge(list(layer)) for layer in zip(*rows, strict=True)]


def _padded(part: Part, width: int) -> list[int]:
    row = part.row
    return [*row.spec.prompt[row.fed : row.fed + part.count], *([0] * (width - part.count))]


def _share(own: Any, joint: Any, line: int, span: slice) -> Any:
    """A cache of the kind of `own` with what `joint` holds for one row."""
    fresh, length = copied(own), span.stop - span.start
    if isinstance(fresh, PackedCache):
        fresh.parts = tuple(part[line : line + 1, :, span] for part in joint.parts)
        fresh.used = length
        return fresh
    fresh.keys = joint.keys[line : line + 1, :, span]
    fresh.values = joint.values[line : line + 1, :, span]
    fresh.offset = length
    if isinstance(fresh, _library.RotatingKVCache):
        fresh._idx = length
    return fresh


def _trial_row(tokens: tuple[int, ...], caches: LayerCaches) -> Row:
    return Row(RowSpec(prompt=(*tokens, 0), sampling=SamplingSpec(seed=0)), caches)
