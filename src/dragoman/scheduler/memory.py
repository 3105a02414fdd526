"""What running rows may grow to, against byte budgets. Knows rows only as sequences and the cache not at all."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.errors import DragomanError
from dragoman.engines.base import Engine
from dragoman.scheduler.admission import memory_fault
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.scheduler.sequence import Sequence


class MemoryBudget:
    """Projects rows with the engine's own figures: a row counts with all it may become, from admission to its end.

    Where the engine does not know its figures (0 bytes) everything fits. Without a budget it is never asked.
    """

    def __init__(self, engine: Engine, limits: SchedulerLimits) -> None:
        self._engine = engine
        self._budget = limits.row_budget
        self._total = limits.total_budget

    def project(self, sequence: Sequence) -> DragomanError | None:
        """Note what a sequence may grow to; why it can never run, if so."""
        if self._budget is None:
            return None
        sequence.projected_bytes = self._engine.row_bytes(sequence.longest)
        return memory_fault(sequence.projected_bytes, sequence.longest, self._budget)

    def fits(self, candidate: Sequence, running: Iterable[Sequence], waiting: Iterable[Sequence]) -> bool:
        """Whether the candidate can run beside the rows in use and the prefixes held for those that wait."""
        if self._budget is None:
            return True
        held = held_bytes(other for other in waiting if other is not candidate)
        return row_bytes(running) + held + candidate.projected_bytes <= self._budget

    def may_hold(self, nbytes: int, running: Iterable[Sequence], waiting: Iterable[Sequence]) -> bool:
        """Whether a prefix of that many bytes can be held, beside the rows, for requests that wait."""
        return self._budget is None or row_bytes(running) + held_bytes(waiting) + nbytes <= self._budget

    def cache_room(self, running: Iterable[Sequence], waiting: Iterable[Sequence]) -> int | None:
        """Bytes the prefix cache may take now beside the rows; None where only its own budget counts."""
        if self._total is None:
            return None
        return max(0, self._total - row_bytes(running) - held_bytes(waiting))


def row_bytes(running: Iterable[Sequence]) -> int:
    """What rows may grow to, together."""
    return sum(sequence.projected_bytes for sequence in running)


def held_bytes(waiting: Iterable[Sequence]) -> int:
    """Bytes of the prefixes that sequences hold to begin with; one that several share counts once."""
    forks = {id(sequence.fork.snapshot): sequence.fork.snapshot.nbytes for sequence in waiting if sequence.fork}
    return sum(forks.values())
