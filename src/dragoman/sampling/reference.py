"""The sampler written plainly, one row at a time: the yardstick of the vectorised one, and the way the rare rows are
drawn that no pass over all rows can serve. Knows no engine.

A row runs through its bias, its mask and its chain of stages (`sampling.chain`); what leads the chain and depends on
the history (penalties, DRY) is part of the reported distribution, the rest is not. Filters come before the temperature
in the default chain, as in llama.cpp, so a hot temperature never brings back what a filter removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dragoman.core.sampling import SamplingSpec
from dragoman.sampling import adaptive, filters, mirostat
from dragoman.sampling.adaptive import Average
from dragoman.sampling.bias import ban_row, bias_row
from dragoman.sampling.breakers import DEFAULT_BREAKERS, BreakerResolver, Breakers
from dragoman.sampling.chain import PROCESSORS, chain_of
from dragoman.sampling.dry import ALLOWED_LENGTH, BASE, WINDOW, Dry
from dragoman.sampling.filters import Kept, softmax
from dragoman.sampling.mask import forbid
from dragoman.sampling.noise import SPAN, chances, gumbel, step_keys
from dragoman.sampling.penalties import penalise, window_counts
from dragoman.sampling.temper import dynamic_temperature, hlg, tempered
from dragoman.sampling.vectors import SamplingVectors, vectors_of

Row = NDArray[np.float32]


@dataclass(frozen=True)
class Memory:
    """What a row's next draw needs to know of its earlier ones, beside the tokens."""

    mu: float
    average: Average


@dataclass(frozen=True)
class Candidates:
    """Tokens that may still be drawn, and their logits; same shape."""

    ids: NDArray[np.int64]
    logits: Row

    def only(self, kept: Kept) -> Candidates:
        """Those that are kept."""
        return self if kept.all() else Candidates(self.ids[kept], self.logits[kept])


@dataclass(frozen=True)
class Moment:
    """Where a row stands: all its tokens, and how many of them it drew."""

    history: Sequence[int]
    step: int


class RowSampler:
    """Draws for one row. `memory` is replaced with every draw and can be handed to the next sampler of the same row.

    Without `resolve` a row cannot have DRY's breakers, and DRY runs as if there were none.
    """

    def __init__(
        self,
        spec: SamplingSpec,
        stop_tokens: frozenset[int],
        vocab_size: int,
        resolve: BreakerResolver | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._spec = spec
        self._stop_tokens = stop_tokens
        self._size = vocab_size
        self._vectors: SamplingVectors = vectors_of([spec], vocab_size)
        self._bias = bias_row(spec, stop_tokens, vocab_size)
        chain = chain_of(spec)
        lead = next((i for i, name in enumerate(chain) if name not in PROCESSORS), len(chain))
        self._processors, self._filters = chain[:lead], chain[lead:]
        self._greedy = bool(self._vectors.greedy[0]) and not self._vectors.special[0]
        self._dry = _dry_of(spec, resolve) if "dry" in chain else None
        self._stages: dict[str, Callable[[Candidates, Moment], Candidates]] = {
            "penalties": self._penalties,
            "dry": self._repetitions,
            "xtc": self._xtc,
            "temperature": self._temperature,
            "hlg": self._hlg,
            "mirostat_1": lambda some, _: some.only(
                mirostat.keep_by_rank(some.logits, self.memory.mu, self._size),
            ),
            "mirostat_2": lambda some, _: some.only(mirostat.keep_by_surprise(some.logits, self.memory.mu)),
        }
        self.memory = memory or Memory(mirostat.first_mu(self._tau), adaptive.first_average(self._target, self._decay))

    def processed(self, logits: Row, moment: Moment, allowed: NDArray[np.bool_] | None = None) -> Row:
        """Logits after bias, mask, penalties and DRY: what reported log probabilities are made of.

        Stop tokens are banned while `moment.step < min_tokens`.
        """
        row = logits.astype(np.float32)
        if self._bias is not None:
            row = row + self._bias
        if moment.step < self._vectors.min_tokens[0]:
            row = row + ban_row(self._stop_tokens, self._size)
        everything = Candidates(np.arange(self._size), forbid(row, allowed))
        return self._through(self._processors, everything, moment).logits

    def candidates(self, row: Row, moment: Moment) -> Candidates:
        """What may be drawn from processed logits, with the logits of the draw (temperature included)."""
        able = row > -np.inf
        some = Candidates(np.flatnonzero(able), row[able])
        return self._through(self._filters, some, moment) if len(some.ids) else some

    def draw(self, row: Row, moment: Moment) -> int:
        """The token of (seed, step) from processed logits: Gumbel-max (Maddison, Tarlow, Minka 2014). The lowest id
        where nothing can be drawn."""
        if self._greedy:
            return int(np.argmax(row))
        some = self.candidates(row, moment)
        if not len(some.ids):
            return 0
        logits = some.logits
        if adaptively := bool(self._filters) and self._filters[-1] == "adaptive_p":
            logits = adaptive.adapted(softmax(some.logits), self._target, self.memory.average)
        behind = logits - np.max(logits)
        able = np.flatnonzero(behind >= -SPAN)
        noise = gumbel(step_keys(self._seed, moment.step, 1)[0], some.ids[able])
        chosen = int(able[np.argmax(behind[able] + noise)])
        if adaptively:
            average = self.memory.average.with_draw(float(softmax(some.logits)[chosen]), self._decay)
            self.memory = replace(self.memory, average=average)
        if self._spec.mirostat:
            mu = mirostat.next_mu(self.memory.mu, some.logits, chosen, self._tau, self._eta)
            self.memory = replace(self.memory, mu=mu)
        return int(some.ids[chosen])

    def distribution(self, row: Row, moment: Moment) -> NDArray[np.float64]:
        """Probabilities of the draw, from processed logits. One-hot for a greedy row."""
        if self._greedy:
            return np.eye(len(row), dtype=np.float64)[int(np.argmax(row))]
        some = self.candidates(row, moment)
        weights = np.zeros(len(row))
        weights[some.ids] = softmax(some.logits)
        return weights

    @property
    def _seed(self) -> int:
        return int(self._vectors.seed[0])

    @property
    def _tau(self) -> float:
        return mirostat.TAU if self._spec.mirostat_tau is None else self._spec.mirostat_tau

    @property
    def _eta(self) -> float:
        return mirostat.ETA if self._spec.mirostat_eta is None else self._spec.mirostat_eta

    @property
    def _target(self) -> float:
        return max(self._spec.adaptive_target or 0.0, 0.0)

    @property
    def _decay(self) -> float:
        return adaptive.DECAY if self._spec.adaptive_decay is None else self._spec.adaptive_decay

    def _through(self, chain: Sequence[str], some: Candidates, moment: Moment) -> Candidates:
        for name in chain:
            stage = self._stages.get(name)
            some = stage(some, moment) if stage else some.only(self._kept(name, some.logits))
        return some

    def _kept(self, name: str, logits: Row) -> Kept:
        vectors, min_keep = self._vectors, int(self._vectors.min_keep[0])
        if name == "top_n_sigma":
            return filters.top_n_sigma(logits, float(vectors.top_n_sigma[0]))
        if name == "top_k":
            k = int(vectors.top_k[0])
            return filters.top_k(logits, max(k, min_keep) if k > 0 else 0)
        if name == "typ_p":
            return filters.typical(logits, float(vectors.typical_p[0]), min_keep)
        if name == "top_p":
            return filters.top_p(logits, float(vectors.top_p[0]), min_keep)
        if name == "min_p":
            return filters.min_p(logits, float(vectors.min_p[0]), min_keep)
        return np.ones(len(logits), dtype=np.bool_)

    def _penalties(self, some: Candidates, moment: Moment) -> Candidates:
        vectors = self._vectors
        counts = window_counts(moment.history, int(vectors.window[0]), self._size)[some.ids]
        penalised = penalise(some.logits, counts, vectors.repetition[0], vectors.presence[0], vectors.frequency[0])
        return Candidates(some.ids, penalised)

    def _repetitions(self, some: Candidates, moment: Moment) -> Candidates:
        penalties = self._dry.penalties(moment.history) if self._dry else {}
        known = [token for token in penalties if 0 <= token < self._size]
        if not known:
            return some
        addends = np.zeros(self._size)
        addends[known] = [penalties[token] for token in known]
        lowered = np.maximum(some.logits - addends[some.ids], np.finfo(np.float32).min).astype(np.float32)
        return Candidates(some.ids, np.where(some.logits > -np.inf, lowered, some.logits))

    def _xtc(self, some: Candidates, moment: Moment) -> Candidates:
        if chances(self._seed, moment.step, 1)[0] >= self._vectors.xtc_probability[0]:
            return some
        return some.only(
            filters.xtc(some.logits, float(self._vectors.xtc_threshold[0]), int(self._vectors.min_keep[0]))
        )

    def _temperature(self, some: Candidates, moment: Moment) -> Candidates:
        temperature, spread = float(self._vectors.temperature[0]), float(self._vectors.dynatemp_range[0])
        best = np.arange(len(some.ids)) == np.argmax(some.logits)
        if temperature <= 0.0:
            return some.only(best)
        if spread > 0.0:
            temperature = dynamic_temperature(
                some.logits, temperature, spread, float(self._vectors.dynatemp_exponent[0])
            )
        return Candidates(some.ids, tempered(some.logits, temperature)) if temperature > 0.0 else some.only(best)

    def _hlg(self, some: Candidates, moment: Moment) -> Candidates:
        v = self._vectors
        shape = (v.temperature, v.hlg_width, v.hlg_shoulder, v.hlg_toe, v.hlg_offset)
        if v.temperature[0] <= 0.0:
            return some.only(np.arange(len(some.ids)) == np.argmax(some.logits))
        return Candidates(some.ids, hlg(some.logits, *(float(values[0]) for values in shape)))


def _dry_of(spec: SamplingSpec, resolve: BreakerResolver | None) -> Dry:
    words = DEFAULT_BREAKERS if spec.dry_sequence_breakers is None else spec.dry_sequence_breakers
    return Dry(
        multiplier=spec.dry_multiplier or 0.0,
        base=BASE if spec.dry_base is None else spec.dry_base,
        allowed_length=ALLOWED_LENGTH if spec.dry_allowed_length is None else spec.dry_allowed_length,
        window=WINDOW if spec.dry_penalty_window is None else spec.dry_penalty_window,
        breakers=resolve(words) if resolve else Breakers(),
    )


def log_probabilities(row: Row) -> NDArray[np.float64]:
    """Natural logarithms of the reported distribution, from processed logits."""
    shifted = row.astype(np.float64) - np.max(row)
    return shifted - np.log(np.sum(np.exp(shifted)))
