"""Random numbers of a batch on the device, the ones `sampling.noise` defines. Filters and scores nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import to_mlx
from dragoman.sampling.noise import BLOCK, SMALLEST, chances, step_keys

_STEPS = 32


class StepKeys:
    """Keys of some rows, step after step, made for many steps at once: the hash costs the same for one as for many.

    `chancy` says whether the extra number of every step (for XTC) is wanted.
    """

    def __init__(self, seeds: Sequence[int], steps: Sequence[int], chancy: bool) -> None:
        self._seeds = seeds
        self._step = list(steps)
        self._chancy = chancy
        self._keys: NDArray[np.uint32] | None = None
        self._chances: NDArray[np.float32] | None = None
        self._used = 0

    def next(self) -> tuple[mx.array, NDArray[np.float32] | None]:
        """Keys of shape (rows, 2) and, where wanted, chances of shape (rows,)."""
        if self._keys is None or self._used == _STEPS:
            pairs = list(zip(self._seeds, self._step, strict=True))
            self._keys = np.stack([step_keys(seed, step, _STEPS) for seed, step in pairs])
            self._chances = np.stack([chances(seed, step, _STEPS) for seed, step in pairs]) if self._chancy else None
            self._step = [step + _STEPS for step in self._step]
            self._used = 0
        self._used += 1
        chance = None if self._chances is None else self._chances[:, self._used - 1]
        return to_mlx(self._keys[:, self._used - 1]), chance


def noise_of_all(keys: mx.array, vocab_size: int) -> mx.array:
    """Gumbel noise of every token, shape (rows, vocab_size)."""
    blocks = mx.arange(-(-vocab_size // BLOCK), dtype=mx.uint32)[None]
    drawn = _uniforms(keys, mx.broadcast_to(blocks, (keys.shape[0], blocks.shape[1])))
    return _gumbel(mx.flatten(drawn, 1, 2)[:, :vocab_size])


def noise_of(keys: mx.array, ids: mx.array) -> mx.array:
    """Gumbel noise of the tokens `ids` of shape (rows, candidates), same shape."""
    ids = ids.astype(mx.uint32)
    places = (ids % BLOCK)[:, :, None]
    return _gumbel(mx.take_along_axis(_uniforms(keys, ids // BLOCK), places, axis=-1)[:, :, 0])


def _uniforms(keys: mx.array, blocks: mx.array) -> mx.array:
    """The numbers of whole blocks, shape (rows, blocks, BLOCK)."""
    first = mx.broadcast_to(keys[:, :1], blocks.shape)
    mixed = mx.flatten(mx.stack([first, keys[:, 1:] ^ blocks], axis=-1), 0, 1)
    uniform: Callable[[mx.array], mx.array] = mx.vmap(lambda key: mx.random.uniform(shape=(BLOCK,), key=key))
    return mx.unflatten(uniform(mixed), 0, blocks.shape)


def _gumbel(uniform: mx.array) -> mx.array:
    return -mx.log(-mx.log1p(-mx.maximum(uniform, SMALLEST)))
