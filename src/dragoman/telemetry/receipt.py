"""What happened to one request, in numbers. Holds no prompt, answer or key."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from dragoman.core.errors import DragomanError
from dragoman.core.events import Event, Failed, Finished, PartDelta, Started
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.core.usage import Timings, Usage

Outcome = Literal["finished", "failed", "cancelled", "refused"]


class Receipt(Struct, kw_only=True, omit_defaults=True):
    """Filled while the request runs, written once at its end. Times in milliseconds; those of the engine are the
    longest of any choice. `miss` is why the first prompt that missed found no more in the prefix cache. `agent` is the
    coding agent whose protocol was spoken and how it was known; `dropped_thoughts` were replayed with a signature that
    is not ours; `repairs` names each thing that had to be mended in tool calls, once for every choice it was mended in.
    `prompts` and `answers` stay empty unless the operator asked for them to be logged."""

    request_id: str
    dialect: str
    path: str
    model: str = ""
    stream: bool = False
    status: int = 200
    outcome: Outcome = "cancelled"
    reason: str = ""
    error: str = ""
    choices: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    lane: str = ""
    queued_ms: float = 0.0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    drafted: int = 0
    accepted: int = 0
    first_token_ms: float | None = None
    total_ms: float = 0.0
    miss: PrefixMiss | None = None
    ignored: tuple[str, ...] = ()
    agent: str = ""
    dropped_thoughts: int = 0
    repairs: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


class ReceiptBook:
    """Follows the events of one request and fills its receipt. Counts a broken-off answer as far as it got."""

    def __init__(self, receipt: Receipt, *, keep_text: bool = False) -> None:
        self.receipt = receipt
        self._texts: dict[int, list[str]] | None = {} if keep_text else None
        self._began = time.perf_counter()
        self._open: dict[int, int] = {}

    def note(self, events: Iterable[Event]) -> None:
        """Take in the next events."""
        receipt = self.receipt
        for event in events:
            if type(event) is PartDelta:
                self._open[event.choice] = self._open.get(event.choice, 0) + len(event.tokens)
                if receipt.first_token_ms is None:
                    receipt.first_token_ms = self._elapsed()
                if self._texts is not None:
                    self._texts.setdefault(event.choice, []).append(event.text)
            elif type(event) is Finished:
                self._finish(event)
            elif type(event) is Started:
                receipt.choices += 1
                receipt.prompt_tokens += event.prompt_tokens
                receipt.cached_tokens += event.cached_tokens
                receipt.miss = receipt.miss or event.miss
                self._open.setdefault(event.choice, 0)
                if self._texts is not None:
                    receipt.prompts += (event.prompt_text,)
            elif type(event) is Failed:
                self.fail(event.error, "failed")

    def fail(self, error: DragomanError, outcome: Outcome) -> None:
        """The request ended with an error."""
        self.receipt.outcome = outcome
        self.receipt.error = error.code

    def close(self) -> Receipt:
        """The receipt, with the tokens of answers that never finished counted too."""
        self.receipt.completion_tokens += sum(self._open.values())
        self._open.clear()
        self.receipt.answers = tuple("".join(pieces) for _, pieces in sorted((self._texts or {}).items()))
        self.receipt.total_ms = self._elapsed()
        return self.receipt

    def _finish(self, event: Finished) -> None:
        self._open.pop(event.choice, None)
        usage: Usage = event.usage
        self.receipt.completion_tokens += usage.completion_tokens
        self.receipt.reason = event.finish.reason.value
        self.receipt.repairs += event.repairs
        self._time(event.timings)
        if self.receipt.outcome == "cancelled":
            self.receipt.outcome = "finished"

    def _time(self, timings: Timings) -> None:
        receipt = self.receipt
        receipt.lane = timings.lane or receipt.lane
        receipt.drafted += timings.drafted
        receipt.accepted += timings.accepted
        receipt.queued_ms = max(receipt.queued_ms, round(timings.queued_ms, 3))
        receipt.prompt_ms = max(receipt.prompt_ms, round(timings.prompt_ms, 3))
        receipt.predicted_ms = max(receipt.predicted_ms, round(timings.predicted_ms, 3))

    def _elapsed(self) -> float:
        return round((time.perf_counter() - self._began) * 1000, 3)
