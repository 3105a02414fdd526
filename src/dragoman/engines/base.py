"""The contract of seam 2. All methods are called on one thread, the one that called `load`.

A row is one sequence being decoded. The scheduler opens it, prefills all of its prompt but the last token in chunks,
then steps it together with others until it closes it. Row numbers are chosen by the scheduler and reused after close.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.model import Capabilities
from dragoman.core.sampling import SamplingSpec


class RowSpec(Struct, frozen=True, kw_only=True):
    """What a row needs. `prompt` has at least one id; `sampling` is resolved and its `seed` always set;
    `logprobs` is the number of alternatives wanted, None for no logprobs; `stop_tokens` end the answer."""

    prompt: tuple[int, ...]
    sampling: SamplingSpec
    stop_tokens: frozenset[int] = frozenset()
    logprobs: int | None = None


class RowStep(Struct, frozen=True):
    """One sampled token of one row. `error` ends this row alone; the token is then meaningless."""

    token: int
    logprobs: TokenLogprobs | None = None
    error: str | None = None


class Engine(Protocol):
    """A model that steps rows. Exceptions from `step` fail all rows given; from other methods that row alone."""

    def load(self) -> None:
        """Load weights; called once, first, on the engine thread. Raises EngineFailure with a clear sentence."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do. Known after `load`."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens one row may hold. Known after `load`."""
        ...

    @property
    def build(self) -> str:
        """Engine and version."""
        ...

    def open(self, row: int, spec: RowSpec) -> None:
        """Begin a row with an empty cache."""
        ...

    def prefill(self, row: int, count: int) -> None:
        """Process the next `count` prompt tokens of the row. The last prompt token is never prefilled: the first
        `step` feeds it."""
        ...

    def step(self, rows: Sequence[int]) -> list[RowStep]:
        """Feed each row its newest token and sample the next; results in the order of `rows`. Rows may join or leave
        between steps in any way. At most `capabilities.lanes` rows."""
        ...

    def close(self, row: int) -> None:
        """Forget the row and free its cache. Rows that were never opened are ignored."""
        ...

    def unload(self) -> None:
        """Free everything. Called last, on the engine thread."""
        ...
