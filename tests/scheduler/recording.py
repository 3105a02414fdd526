"""A fake engine that notes every call, and a clock that counts them."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.fake import FakeEngine, FakeScript


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class RecordingEngine(FakeEngine):
    """`calls` are (name, row or rows, count), one for each row where several are prefilled together; `together` are the
    (row, count) of those; `misused` what open() had to complain of, which a scheduler may survive.
    With a clock, an open takes 1, a prefilled token 2, a step 16 seconds."""

    def __init__(
        self,
        script: FakeScript | None = None,
        *,
        lanes: int = 4,
        context_length: int = 8192,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(script, lanes=lanes, context_length=context_length)
        self.clock = clock or Clock()
        self.calls: list[tuple[str, object, int]] = []
        self.together: list[list[tuple[int, int]]] = []
        self.misused: list[str] = []
        self.load()

    def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
        self.calls.append(("open", row, len(spec.prompt)))
        self.clock.now += 1
        try:
            super().open(row, spec, snapshot, cached)
        except RuntimeError as error:
            if "against its contract" in str(error):
                self.misused.append(str(error))
            raise

    def prefill(self, row: int, count: int) -> Sequence[TokenLogprobs]:
        self.calls.append(("prefill", row, count))
        self.clock.now += 2 * count
        return super().prefill(row, count)

    def prefill_many(self, work: Sequence[tuple[int, int]]) -> list[Sequence[TokenLogprobs] | Exception]:
        self.together.append(list(work))
        return super().prefill_many(work)

    def step(self, rows: Sequence[int]) -> list[RowStep]:
        self.calls.append(("step", tuple(rows), 0))
        self.clock.now += 16
        return super().step(rows)

    def close(self, row: int) -> None:
        self.calls.append(("close", row, 0))
        super().close(row)

    def named(self, name: str) -> list[tuple[str, object, int]]:
        return [call for call in self.calls if call[0] == name]
