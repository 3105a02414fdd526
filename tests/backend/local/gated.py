"""A fake engine that steps only when told, and notes on which threads it is called."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript

FOREVER = FakeScript(
    rules=(
        FakeRule(match="#fail", pieces=("x",), repeat=True, fail_after=3, error="lamp broke"),
        FakeRule(match="#raise", pieces=("x",), repeat=True, raise_after=3, error="device lost"),
        FakeRule(match="#short", pieces=("one ", "two")),
        FakeRule(pieces=("la ", "li "), repeat=True),
    )
)
LONGEST_WAIT = 20.0


class GatedEngine(FakeEngine):
    """`allow(n)` lets n more steps or prefill calls (works) happen, `open_gate` all of them."""

    def __init__(self, script: FakeScript = FOREVER, *, lanes: int = 2, is_open: bool = False) -> None:
        super().__init__(script, lanes=lanes)
        self.works = 0
        self.is_at_gate = False
        self.opened: list[str] = []
        self.threads: set[int] = set()
        self.is_unloaded = False
        self._permits = threading.Semaphore(0)
        self._is_open = is_open

    def allow(self, count: int = 1) -> None:
        self._permits.release(count)

    def open_gate(self) -> None:
        self._is_open = True
        self._permits.release()

    def _pass(self) -> None:
        self.threads.add(threading.get_ident())
        self.is_at_gate = True
        if not self._is_open and not self._permits.acquire(timeout=LONGEST_WAIT):
            raise AssertionError("the test never allowed this step")
        self.is_at_gate = False
        self.works += 1

    def load(self) -> None:
        self.threads.add(threading.get_ident())
        super().load()

    def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
        self.threads.add(threading.get_ident())
        super().open(row, spec, snapshot, cached)
        self.opened.append(self.tokenizer.decode(spec.prompt))

    def prefill(self, row: int, count: int) -> Sequence[TokenLogprobs]:
        self._pass()
        return super().prefill(row, count)

    def step(self, rows: Sequence[int]) -> list[RowStep]:
        self._pass()
        return super().step(rows)

    def close(self, row: int) -> None:
        self.threads.add(threading.get_ident())
        super().close(row)

    def unload(self) -> None:
        self.threads.add(threading.get_ident())
        self.is_unloaded = True
        super().unload()
