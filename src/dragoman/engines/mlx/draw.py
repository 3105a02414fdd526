"""The outcome of one sampling pass: tokens and log probabilities, read only when somebody asks. Samples nothing."""

from __future__ import annotations

import math

import mlx.core as mx

from dragoman.core.logprobs import TokenLogprob, TokenLogprobs
from dragoman.engines.base import RowStep
from dragoman.engines.mlx.arrays import start, to_list

_UNUSABLE = "The model produced no usable probabilities (its logits are not finite)."
_NOTHING_ALLOWED = "The constraint allows no token here."
_IMPOSSIBLE = -9999.0


class Draw:
    """The tokens of one step, perhaps still being computed; reading them waits. `masked` are the positions of rows
    under a constraint."""

    def __init__(
        self, tokens: mx.array, peaks: mx.array, logprobs: Logprobs | None, masked: frozenset[int] = frozenset()
    ) -> None:
        self.tokens = tokens
        self._peaks = peaks
        self._logprobs = logprobs
        self._masked = masked
        self._steps: list[RowStep] | None = None
        self._started = False

    def start(self) -> None:
        """Begin computing without waiting, unless that was done before."""
        if self._started:
            return
        self._started = True
        start(self.tokens, self._peaks, *(self._logprobs.arrays if self._logprobs else ()))

    def step_of(self, position: int) -> RowStep:
        """The result of the row at `position` of the batch."""
        if self._steps is None:
            self._steps = self._read()
        return self._steps[position]

    def _read(self) -> list[RowStep]:
        peaks: list[float] = to_list(self._peaks)
        tokens: list[int] = to_list(self.tokens)
        reported = self._logprobs.read() if self._logprobs else {}
        return [
            RowStep(token, reported.get(i)) if math.isfinite(peak) else RowStep(token, error=self._problem(i, peak))
            for i, (token, peak) in enumerate(zip(tokens, peaks, strict=True))
        ]

    def _problem(self, position: int, peak: float) -> str:
        return _NOTHING_ALLOWED if position in self._masked and peak == -math.inf else _UNUSABLE


class Logprobs:
    """Log probabilities of the rows that ask for them. `wanted` maps position in the batch to alternatives."""

    def __init__(self, logits: mx.array, tokens: mx.array, wanted: dict[int, int]) -> None:
        self._wanted = wanted
        at = mx.array(list(wanted))
        rows = logits[at].astype(mx.float32)
        values = rows - mx.logsumexp(rows, axis=-1, keepdims=True)
        self._tokens = tokens[at]
        self._chosen = mx.take_along_axis(values, self._tokens[:, None].astype(mx.int32), axis=-1)[:, 0]
        width = min(max(wanted.values()), logits.shape[-1])
        # A width of 0 takes no rivals at all, only the chosen token.
        self._ids = mx.argpartition(-values, kth=max(width - 1, 0), axis=-1)[:, :width]
        self._values = mx.take_along_axis(values, self._ids, axis=-1)

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """What has to be computed."""
        return self._tokens, self._chosen, self._ids, self._values

    def read(self) -> dict[int, TokenLogprobs]:
        """By position in the batch; waits."""
        tokens: list[int] = to_list(self._tokens)
        chosen: list[float] = to_list(self._chosen)
        ids: list[list[int]] = to_list(self._ids)
        values: list[list[float]] = to_list(self._values)
        return {
            position: _entry(tokens[i], chosen[i], list(zip(ids[i], values[i], strict=True)), count)
            for i, (position, count) in enumerate(self._wanted.items())
        }


def _entry(token: int, logprob: float, rivals: list[tuple[int, float]], count: int) -> TokenLogprobs:
    """Best first, ties by id. A chosen token that ties with the last place takes it: which of several equals the
    partition returned is arbitrary, and a greedy token must be among its own alternatives."""
    ordered = sorted(rivals, key=lambda rival: (-rival[1], rival[0]))[:count]
    if ordered and logprob >= ordered[-1][1] and all(rival != token for rival, _ in ordered):
        ordered = sorted([*ordered[:-1], (token, logprob)], key=lambda rival: (-rival[1], rival[0]))
    top = tuple(TokenLogprob(rival, _finite(value)) for rival, value in ordered)
    return TokenLogprobs(TokenLogprob(token, _finite(logprob)), top)


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else _IMPOSSIBLE
