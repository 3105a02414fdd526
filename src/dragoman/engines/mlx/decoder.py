"""Which rows are fed in a step, and when a step is computed ahead. Knows batches, no scheduler and no model file."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.engines.base import RowStep
from dragoman.engines.mlx.batch import Batch, LanguageModel
from dragoman.engines.mlx.row import LayerCaches, Row
from dragoman.sampling.breakers import BreakerResolver


class Decoder:
    """Keeps the rows that ran last in one batch and adapts it to the rows of each step.

    While the set of rows stays the same, the next step is set up before this one's tokens are read, so the device never
    waits for Python. On a GPU it is begun at once; on a CPU, where beginning waits until nearly all is computed, only
    when it is asked for, so that tokens are delivered as soon as they are known and no step is computed for rows that
    end. When the set changes, results already set up are delivered and only the newcomers run.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocab_size: int,
        context_length: int,
        packs_at: int | None = None,
        breakers: BreakerResolver | None = None,
        *,
        lazy: bool = False,
    ) -> None:
        """`packs_at`: rows that were fed so many tokens are taken away to have their caches quantised. `lazy`: a step
        ahead is begun only when it is asked for."""
        self._model = model
        self._packs_at = packs_at
        self._lazy = lazy
        self._breakers = breakers
        self._vocab_size = vocab_size
        self._context_length = context_length
        self._batch: Batch | None = None

    def step(self, rows: Sequence[Row]) -> list[RowStep]:
        """One token for each row."""
        steady = self._batch is not None and len(rows) == len(self._batch.rows) and _all_in(rows, self._batch.rows)
        if not steady:
            self._let_go(rows)
        if self._batch is not None:
            self._batch.begin()
        fresh = [row for row in rows if not row.results]
        if fresh:
            self._launch(fresh)
        if steady and self._batch is not None and self._runs_ahead(self._batch):
            self._batch.forward(self._model, self._vocab_size)
            if not self._lazy:
                self._batch.begin()
        return [row.deliver() for row in rows]

    def forget(self, row: Row) -> bool:
        """The row was closed. True when that freed the whole batch; otherwise its share goes with the next step."""
        row.closed = True
        row.caches = None
        row.results.clear()
        if self._batch is None or not all(other.closed for other in self._batch.rows):
            return False
        self._batch = None
        return True

    def caches_of(self, row: Row) -> LayerCaches | None:
        """The caches of a row in the batch, to be copied; None when it is not there."""
        return self._batch.caches_of(row) if self._batch is not None and row in self._batch.rows else None

    def part_with(self, rows: Sequence[Row]) -> None:
        """Give these rows their caches back, if they are here; the others stay together."""
        if self._batch is not None and any(row in rows for row in self._batch.rows):
            self._let_go([row for row in self._batch.rows if row not in rows])

    def _runs_ahead(self, batch: Batch) -> bool:
        """Whether the next step can be set up before this one's tokens are read, and gains by it."""
        if not batch.running or (self._lazy and batch.waits):
            return False
        return all(self._goes_on(row) for row in batch.rows)

    def _goes_on(self, row: Row) -> bool:
        """Whether the row can, and may, go on after the token it is about to deliver."""
        if row.spec.max_tokens is not None and row.drawn >= row.spec.max_tokens:
            return False
        return len(row.tokens) + 1 < self._context_length and row.fed != self._packs_at

    def _let_go(self, rows: Sequence[Row]) -> None:
        """Drop from the batch who is not among `rows`."""
        if self._batch is None:
            return
        staying = [row for row in self._batch.rows if row in rows]
        if staying:
            self._batch.keep(staying)
        else:
            self._batch.release()
            self._batch = None

    def _launch(self, fresh: Sequence[Row]) -> None:
        """Begin a draw for rows that have none. They run with the batch unless it is ahead of them: its rows either all
        have a result to deliver, or none has."""
        ahead = self._batch is not None and any(row.results for row in self._batch.rows)
        joining = [row for row in fresh if row not in self._running()]
        # An empty cache has no shape to pad, so a row's very first token runs alone.
        seasoned = [row for row in joining if row.fed]
        if ahead:
            self._run_beside(seasoned)
        else:
            self._absorb(Batch(seasoned, self._breakers) if seasoned else None)
            if self._batch is not None:
                self._batch.forward(self._model, self._vocab_size)
                self._batch.begin()
        for row in joining:
            if not row.fed:
                self._run_beside([row])

    def _running(self) -> list[Row]:
        return self._batch.rows if self._batch is not None else []

    def _run_beside(self, rows: Sequence[Row]) -> None:
        if rows:
            beside = Batch(rows, self._breakers)
            beside.forward(self._model, self._vocab_size)
            beside.begin()
            self._absorb(beside)

    def _absorb(self, batch: Batch | None) -> None:
        if self._batch is None:
            self._batch = batch
        elif batch is not None:
            self._batch.extend(batch)


def _all_in(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    return all(row in others for row in rows)
