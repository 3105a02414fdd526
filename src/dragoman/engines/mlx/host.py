"""Draws on the CPU for the rows no pass over the whole batch can serve. Waits for their logits at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import to_mlx, to_numpy
from dragoman.engines.mlx.row import Row
from dragoman.engines.mlx.stages import Some
from dragoman.sampling.breakers import BreakerResolver
from dragoman.sampling.reference import Memory, Moment, RowSampler


@dataclass
class HostDraw:
    """Tokens, largest logits and processed logits of the rows, in their order."""

    tokens: mx.array
    peaks: mx.array
    logits: mx.array


class Host:
    """The rows at positions `chosen`, each with a reference sampler that remembers in `row.memory`."""

    def __init__(
        self, rows: Sequence[Row], chosen: NDArray[np.int64], vocab_size: int, resolve: BreakerResolver | None
    ) -> None:
        self.some = Some(chosen, len(rows))
        self._positions: list[int] = chosen.tolist()
        self._rows = [rows[i] for i in self._positions]
        self._histories = [list(row.tokens) for row in self._rows]
        self._steps = [row.drawn for row in self._rows]
        self._samplers = [
            RowSampler(row.spec.sampling, row.spec.stop_tokens, vocab_size, resolve, _memory(row)) for row in self._rows
        ]

    def draw(self, logits: mx.array, masks: Mapping[int, NDArray[np.bool_]]) -> HostDraw:
        """From raw logits of all rows; `masks` are what is allowed, by position."""
        lines = to_numpy(self.some.pick(logits).astype(mx.float32))
        allowed = [masks.get(position) for position in self._positions]
        drawn = [self._draw(i, line, mask) for i, (line, mask) in enumerate(zip(lines, allowed, strict=True))]
        tokens = np.array([token for token, _ in drawn], dtype=np.uint32)
        processed = np.stack([row for _, row in drawn])
        return HostDraw(to_mlx(tokens), to_mlx(np.max(processed, axis=-1)), to_mlx(processed))

    def _draw(
        self, index: int, line: NDArray[np.float32], allowed: NDArray[np.bool_] | None
    ) -> tuple[int, NDArray[np.float32]]:
        sampler, history = self._samplers[index], self._histories[index]
        moment = Moment(history, self._steps[index])
        with np.errstate(invalid="ignore", over="ignore"):
            processed = sampler.processed(line, moment, allowed)
            token = sampler.draw(processed, moment) if np.isfinite(np.max(processed)) else 0
        history.append(token)
        self._steps[index] += 1
        self._rows[index].memory = sampler.memory
        return token, processed


def _memory(row: Row) -> Memory | None:
    return row.memory if isinstance(row.memory, Memory) else None
