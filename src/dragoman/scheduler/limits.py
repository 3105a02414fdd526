"""How much a scheduler takes on. Plain numbers; what enforces them is not known here."""

from __future__ import annotations

from msgspec import Struct


class SchedulerLimits(Struct, frozen=True, kw_only=True):
    """`max_lanes` rows at most decode together (None: as many as the engine can). `prefill_chunk` prompt tokens at
    most are prefilled in one step, over all rows, so that running rows never wait longer than that.
    `max_waiting` requests may wait beside those that have a row; a backend refuses more."""

    max_lanes: int | None = None
    prefill_chunk: int = 256
    max_waiting: int = 64

    def __post_init__(self) -> None:
        if self.max_lanes is not None and self.max_lanes < 1:
            raise ValueError("max_lanes must be at least 1")
        if self.prefill_chunk < 1:
            raise ValueError("prefill_chunk must be at least 1")
        if self.max_waiting < 0:
            raise ValueError("max_waiting must not be negative")

    def lanes(self, engine_lanes: int) -> int:
        """Rows that decode together on an engine that can do `engine_lanes`."""
        return engine_lanes if self.max_lanes is None else min(self.max_lanes, engine_lanes)
