"""The scripted engine: deterministic answers, times and faults behind the contract of seam 2.

It holds its caller to the contract: a wrong call raises, so that a scheduler's mistakes show. Knows no scheduler.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from dragoman import __version__
from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.model import Capabilities
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.fake.draw import HONOURED
from dragoman.engines.fake.plan import plan_for
from dragoman.engines.fake.row import FakeRow
from dragoman.engines.fake.script import FakeScript
from dragoman.engines.fake.snapshot import FakeSnapshot
from dragoman.engines.fake.tokenizer import FakeTokenizer
from dragoman.engines.fake.toy import ToyModel


class FakeEngine:
    """An engine whose answers come from a script, or from toy logits without one.

    `lanes` and `context_length` override the script's figures.
    """

    def __init__(
        self, script: FakeScript | None = None, *, lanes: int | None = None, context_length: int | None = None
    ) -> None:
        self.script = script or FakeScript(default="logits")
        self.tokenizer = FakeTokenizer(self.script)
        self._lanes = lanes or self.script.lanes
        self._context_length = context_length or self.script.context_length
        self._toy = ToyModel(self.tokenizer)
        self._rows: dict[int, FakeRow] = {}
        self._prefilled = 0

    def load(self) -> None:
        """Wait and fail as the script says."""
        _pause(self.script.load_delay)
        if self.script.load_error is not None:
            raise EngineFailure(self.script.load_error)

    @property
    def capabilities(self) -> Capabilities:
        """All that toy logits honour, or what the script says."""
        fields = HONOURED if self.script.sampling is None else frozenset(self.script.sampling)
        logprobs = self.script.max_logprobs
        return Capabilities(sampling=fields, lanes=self._lanes, logprobs=logprobs, prompt_logprobs=logprobs is not None)

    @property
    def context_length(self) -> int:
        """Tokens one row may hold."""
        return self._context_length

    @property
    def build(self) -> str:
        """Engine and version."""
        return f"fake {__version__}"

    @property
    def open_rows(self) -> frozenset[int]:
        """Numbers of the rows that are open, for tests."""
        return frozenset(self._rows)

    @property
    def prefilled_tokens(self) -> int:
        """Prompt tokens processed by `prefill` since the engine was made, for tests."""
        return self._prefilled

    def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
        """Begin a row. Raises InvalidRequest for ids outside the vocabulary."""
        self._require(row not in self._rows, f"row {row} is already open")
        self._require(0 <= row < self._lanes, f"row {row} is not one of {self._lanes} lanes")
        self._require(len(spec.prompt) > 0, "the prompt is empty")
        self._require(spec.sampling.seed is not None, "the seed is not set")
        if not 0 <= min(spec.prompt) <= max(spec.prompt) < self.tokenizer.size:
            raise InvalidRequest(f"The prompt has token ids outside the vocabulary of {self.tokenizer.size}.")
        self._require_usable(spec, snapshot, cached)
        prompt = self.tokenizer.decode(spec.prompt)
        rule = self.script.rule_for(prompt)
        if rule.open_error:
            raise RuntimeError(rule.error)
        plan = plan_for(rule, prompt, self.tokenizer)
        state = FakeRow(spec, rule, plan, self._toy, self.tokenizer)
        state.feed(cached)
        self._rows[row] = state

    def prefill(self, row: int, count: int) -> Sequence[TokenLogprobs]:
        """Process `count` prompt tokens, never the last one."""
        state = self._open_row(row)
        self._require(0 < count < state.unfed and state.sampled == 0, f"row {row} cannot prefill {count} tokens")
        delay = state.rule.prefill_delay
        _pause(self.script.prefill_delay if delay is None else delay)
        if state.rule.prefill_error:
            raise RuntimeError(state.rule.error)
        self._prefilled += count
        return state.prefill(count)

    def prefill_many(self, work: Sequence[tuple[int, int]]) -> list[Sequence[TokenLogprobs] | Exception]:
        """One row after the other."""
        self._require(len({row for row, _ in work}) == len(work) > 0, f"a prefill of {list(work)}")
        return [self._outcome(row, count) for row, count in work]

    def snapshot(self, row: int) -> Snapshot | None:
        """The tokens the row was fed; None where the script allows no snapshots."""
        tokens = self._open_row(row).fed_tokens
        if not self.script.snapshots or not tokens:
            return None
        return FakeSnapshot(tokens, len(tokens) * self.script.token_bytes, self.script.trimmable)

    @property
    def state_key(self) -> str:
        """States are the tokens alone."""
        return f"fake {self.tokenizer.size}"

    def write_state(self, snapshot: Snapshot, length: int, file: Path) -> None:
        """The tokens, as JSON."""
        self._require(isinstance(snapshot, FakeSnapshot), "the snapshot is another engine's")
        file.write_text(json.dumps(list(cast("FakeSnapshot", snapshot).tokens[:length])), encoding="utf-8")

    def read_state(self, file: Path, length: int) -> Snapshot:
        """What `write_state` wrote."""
        tokens = tuple(json.loads(file.read_text(encoding="utf-8")))
        if len(tokens) != length:
            raise ValueError("a state of another length")
        return FakeSnapshot(tokens, length * self.script.token_bytes, self.script.trimmable)

    def row_bytes(self, length: int) -> int:
        """As the script weighs tokens."""
        return length * self.script.token_bytes

    def step(self, rows: Sequence[int]) -> list[RowStep]:
        """Feed and sample every row; the slowest row sets the time."""
        states = [self._open_row(row) for row in rows]
        self._require(len(set(rows)) == len(rows) > 0, f"a step of rows {list(rows)}")
        for row, state in zip(rows, states, strict=True):
            self._require(state.unfed == 1, f"row {row} is not prefilled")
            self._require(state.length < self._context_length, f"row {row} is longer than the context window")
            state.misbehave()
        _pause(max(state.pause(self.script.delay) for state in states))
        return [state.step() for state in states]

    def close(self, row: int) -> None:
        """Forget a row."""
        self._rows.pop(row, None)

    def unload(self) -> None:
        """Forget all rows."""
        self._rows.clear()

    def _require_usable(self, spec: RowSpec, snapshot: Snapshot | None, cached: int) -> None:
        """`cached` leading prompt tokens can be taken out of `snapshot`, and are what it holds."""
        if snapshot is None:
            self._require(cached == 0, "cached tokens without a snapshot")
            return
        if not isinstance(snapshot, FakeSnapshot):
            raise RuntimeError("The engine was used against its contract: a snapshot of another engine.")
        self._require(0 <= cached < len(spec.prompt), f"{cached} cached tokens of a prompt of {len(spec.prompt)}")
        self._require(spec.prompt_logprobs is None or not cached, "a row that reports its prompt began with a snapshot")
        self._require(cached <= snapshot.length, f"{cached} cached tokens out of {snapshot.length}")
        self._require(snapshot.trimmable or cached == snapshot.length, "a snapshot that cannot be cut was cut")
        self._require(snapshot.tokens[:cached] == spec.prompt[:cached], "a snapshot of another prompt")

    def _outcome(self, row: int, count: int) -> Sequence[TokenLogprobs] | Exception:
        try:
            return self.prefill(row, count)
        except Exception as fault:
            return fault

    def _open_row(self, row: int) -> FakeRow:
        self._require(row in self._rows, f"row {row} is not open")
        return self._rows[row]

    def _require(self, condition: bool, fault: str) -> None:
        if not condition:
            raise RuntimeError(f"The engine was used against its contract: {fault}.")


def _pause(seconds: float) -> None:
    """Take that long; no system call for no time at all."""
    if seconds > 0:
        time.sleep(seconds)
