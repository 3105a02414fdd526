"""The contract of seam 2. All methods are called on one thread, the one that called `load`.

A row is one sequence being decoded. The scheduler opens it, prefills all of its prompt but the last token in chunks,
then steps it together with others until it closes it. Row numbers are chosen by the scheduler and reused after close.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.mask import MaskProvider
from dragoman.core.model import Capabilities
from dragoman.core.sampling import SamplingSpec
from dragoman.core.snapshot import Snapshot
from dragoman.core.vectors import Vector


class RowSpec(Struct, frozen=True, kw_only=True):
    """What a row needs. `prompt` has at least one id; `sampling` is resolved and its `seed` always set;
    `logprobs` is the number of alternatives wanted, None for no logprobs, `prompt_logprobs` the same for the tokens of
    the prompt; `stop_tokens` end the answer; `mask` constrains it; `max_tokens` is how many steps will be
    asked for at most, None when that is not known."""

    prompt: tuple[int, ...]
    sampling: SamplingSpec
    stop_tokens: frozenset[int] = frozenset()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    mask: MaskProvider | None = None
    max_tokens: int | None = None


class RowStep(Struct, frozen=True):
    """One sampled token of one row. `error` ends this row alone; the token is then meaningless. `ended` tells that the
    row's mask allows nothing after this token."""

    token: int
    logprobs: TokenLogprobs | None = None
    error: str | None = None
    ended: bool = False


class Engine(Protocol):
    """A model that steps rows. Exceptions from `step` and `prefill_many` fail all rows given; from other methods that
    row alone."""

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

    def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
        """Begin a row: with an empty cache, or with the first `cached` prompt tokens out of `snapshot` (at most its
        length and at most the prompt without its last token; fewer than its length only if it is trimmable)."""
        ...

    def prefill(self, row: int, count: int) -> Sequence[TokenLogprobs]:
        """Process the next `count` prompt tokens of the row. The last prompt token is never prefilled: the first
        `step` feeds it. Gives, where `prompt_logprobs` asks for it, one entry for each processed token: that of the
        prompt token that follows it; else nothing."""
        ...

    def prefill_many(self, work: Sequence[tuple[int, int]]) -> list[Sequence[TokenLogprobs] | Exception]:
        """`prefill` for several (row, count), each row once, in whatever way is fastest. In the order of `work`: what
        `prefill` would have given, or the exception that fails this row alone."""
        ...

    def snapshot(self, row: int) -> Snapshot | None:
        """The row's state after all tokens it has been fed so far, shared without copying where that is possible; None
        when this model's state cannot be kept. The row goes on undisturbed."""
        ...

    def row_bytes(self, length: int) -> int:
        """Bytes the cache of one row of `length` tokens takes, at the cache type in use; 0 when not known."""
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


@runtime_checkable
class StateFiles(Protocol):
    """An engine that can write the state of a row to a file and read it back."""

    @property
    def state_key(self) -> str:
        """Names everything a written state depends on: a state with another key means nothing here."""
        ...

    def write_state(self, snapshot: Snapshot, length: int, file: Path) -> None:
        """The first `length` tokens of `snapshot` (fewer than it has only if it is trimmable). Raises OSError."""
        ...

    def read_state(self, file: Path, length: int) -> Snapshot:
        """A state of `length` tokens that was written. Raises ValueError for what is none."""
        ...


class Pair(Struct, frozen=True):
    """A query and a document as a cross-encoder was trained on them: ids, and the text each belongs to (0 or 1)."""

    ids: tuple[int, ...]
    types: tuple[int, ...]


class Encoder(Protocol):
    """A model that turns token ids into vectors or scores, without generating. One thread calls it, as with Engine.
    Inputs are never longer than `context_length`."""

    def load(self) -> None:
        """Load weights; called once, first. Raises EngineFailure with a clear sentence."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Whether it embeds or ranks, and how it pools. Known after `load`."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens one input may have."""
        ...

    @property
    def build(self) -> str:
        """Engine and version."""
        ...

    def embed(self, inputs: Sequence[tuple[int, ...]]) -> list[tuple[Vector, ...]]:
        """The vectors of each input as computed: one, or one per token where it does not pool."""
        ...

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """The raw relevance of each pair."""
        ...

    def unload(self) -> None:
        """Free everything. Called last."""
        ...
