"""Draws the next token of every row of a batch in one pass. Knows logits, specs and masks, no model and no cache.

Stages and their order are those of `sampling.reference`; stages no row needs are not computed. Rows that leave nothing
to chance are an argmax; rows with a small top_k look at the most likely tokens only; rows whose stages cannot be
vectorised are drawn one by one on the CPU, which makes their batch wait but changes nothing for its other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dragoman.engines.mlx.arrays import column, put_rows, to_mlx
from dragoman.engines.mlx.chance import Chance, head_sizes
from dragoman.engines.mlx.draw import Draw, Logprobs
from dragoman.engines.mlx.host import Host, HostDraw
from dragoman.engines.mlx.precision import on_cpu
from dragoman.engines.mlx.row import Row
from dragoman.engines.mlx.stages import penalties_of
from dragoman.sampling.bias import ban_row, bias_row
from dragoman.sampling.breakers import BreakerResolver
from dragoman.sampling.mask import unpacked
from dragoman.sampling.vectors import SamplingVectors, vectors_of


class Sampler:
    """Samples for one fixed set of rows, step after step, without reading tokens back where no row needs them.

    Made when the set of rows changes, at a moment when all their tokens are known; from then on it follows the
    penalty windows with arrays. Each `draw` counts as one more token of every row. `resolve` finds DRY's breakers.
    `filter_on_host` moves rows that filter the whole vocabulary to the CPU path; by default where MLX runs on the CPU
    anyway, because its sort and exp there take ten times as long as NumPy's.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        vocab_size: int,
        resolve: BreakerResolver | None = None,
        filter_on_host: bool | None = None,
    ) -> None:
        specs = [row.spec.sampling for row in rows]
        self._vocab_size = vocab_size
        self._vectors = vectors = vectors_of(specs, vocab_size)
        self._steps = np.array([row.drawn for row in rows])
        self._wanted = {i: row.spec.logprobs for i, row in enumerate(rows) if row.spec.logprobs is not None}
        on_host = _on_host(vectors, vocab_size, on_cpu() if filter_on_host is None else filter_on_host)
        self._host = Host(rows, np.flatnonzero(on_host), vocab_size, resolve) if on_host.any() else None
        self._host_rows = frozenset(np.flatnonzero(on_host).tolist())
        stops = [row.spec.stop_tokens for row in rows]
        here = list(zip(specs, stops, (~on_host).tolist(), strict=True))
        self._bias = _stacked([bias_row(spec, stop, vocab_size) if on else None for spec, stop, on in here])
        early = (self._steps < vectors.min_tokens) & ~on_host
        self._ban = _stacked([ban_row(stop, vocab_size) if on else None for stop, on in zip(stops, early, strict=True)])
        self._penalties = penalties_of(rows, vectors, ~on_host, vocab_size)
        self._chances = _chances(vectors, ~vectors.greedy & ~on_host, self._steps, vocab_size)
        self._last: mx.array | None = None

    @property
    def waits(self) -> bool:
        """Whether a draw waits for its logits, because some rows are drawn on the CPU."""
        return self._host is not None

    def draw(self, logits: mx.array, masks: Mapping[int, NDArray[np.int32]] | None = None) -> Draw:
        """Sample from logits of shape (rows, vocabulary), in any float type. `masks` constrains the rows at the given
        positions: words of allowed bits (see `sampling.mask`). They are applied after bias and penalties, so reported
        log probabilities are those of what is allowed; a row whose mask leaves nothing ends with an error."""
        if self._last is not None:
            for penalties in self._penalties:
                penalties.follow(self._last)
        allowed = {position: unpacked(words, self._vocab_size) for position, words in (masks or {}).items()}
        hosted = self._host.draw(logits, allowed) if self._host else None
        logits = _masked(self._processed(logits), {i: row for i, row in allowed.items() if i not in self._host_rows})
        peaks = mx.max(logits, axis=-1).astype(mx.float32)
        tokens = self._tokens(logits, hosted)
        if self._host and hosted:
            peaks = self._host.some.put(peaks, hosted.peaks)
            if self._wanted.keys() & self._host_rows:
                logits = self._host.some.put(logits.astype(mx.float32), hosted.logits)
        self._last = tokens
        self._steps = self._steps + 1
        return Draw(tokens, peaks, self._logprobs(logits, tokens), frozenset(allowed))

    def _tokens(self, logits: mx.array, hosted: HostDraw | None) -> mx.array:
        """Greedy rows first; the others overwrite their places."""
        taken = len(self._host_rows) + sum(chance.size for chance in self._chances)
        tokens = mx.argmax(logits, axis=-1) if taken < len(self._steps) else mx.zeros(len(self._steps), mx.uint32)
        for chance in self._chances:
            tokens = chance.some.put(tokens, chance.draw(logits))
        return self._host.some.put(tokens, hosted.tokens) if self._host and hosted else tokens

    def _processed(self, logits: mx.array) -> mx.array:
        if self._bias is not None:
            logits = logits.astype(mx.float32) + self._bias
        early = self._steps < self._vectors.min_tokens
        if self._ban is not None and early.any():
            logits = mx.where(column(early), logits.astype(mx.float32) + self._ban, logits)
        for penalties in self._penalties:
            logits = penalties.apply(logits)
        return logits

    def _logprobs(self, logits: mx.array, tokens: mx.array) -> Logprobs | None:
        return Logprobs(logits, tokens, self._wanted) if self._wanted else None


def _on_host(vectors: SamplingVectors, vocab_size: int, filter_on_host: bool) -> NDArray[np.bool_]:
    """Rows for the CPU path."""
    if not filter_on_host:
        return vectors.special
    whole = head_sizes(vectors, vocab_size) == vocab_size
    return vectors.special | (whole & vectors.filtered)


def _chances(
    vectors: SamplingVectors, wanted: NDArray[np.bool_], steps: NDArray[np.int64], vocab_size: int
) -> list[Chance]:
    """One for each number of tokens that rows look at."""
    heads = head_sizes(vectors, vocab_size)
    sizes: list[int] = sorted(set(heads[wanted].tolist()))
    return [Chance(vectors, np.flatnonzero(wanted & (heads == size)), steps, size, vocab_size) for size in sizes]


def _masked(logits: mx.array, allowed: Mapping[int, NDArray[np.bool_]]) -> mx.array:
    """Logits with minus infinity where a masked row allows nothing."""
    if not allowed:
        return logits
    bits = to_mlx(np.stack(list(allowed.values())))
    if len(allowed) == logits.shape[0]:
        order = to_mlx(np.argsort(np.array(list(allowed))))
        return mx.where(bits[order], logits, -mx.inf)
    at = mx.array(list(allowed))
    return put_rows(logits, at, mx.where(bits, logits[at], -mx.inf))


def _stacked(rows: Sequence[NDArray[np.float32] | None]) -> mx.array | None:
    """One array of all rows, zeros for None; None when all are."""
    shape = next((row.shape for row in rows if row is not None), None)
    if shape is None:
        return None
    return to_mlx(np.stack([np.zeros(shape, np.float32) if row is None else row for row in rows]))
