"""How much a scheduler takes on. Plain numbers; what enforces them is not known here."""

from __future__ import annotations

from msgspec import Struct


class SchedulerLimits(Struct, frozen=True, kw_only=True):
    """`max_lanes` rows at most decode together (None: as many as the engine can). `max_waiting` requests may wait
    beside those that have a row; a backend refuses more.

    At most `prefill_chunk` prompt tokens are prefilled in one step, over all rows, or up to a quarter more where that
    completes prompts, so that running rows never wait longer than that; while no row decodes it is
    `prefill_chunk_idle`, which bounds how long a newcomer or a cancel waits. With `prefill_seconds` and
    `prefill_seconds_idle` chunks become smaller where they would take longer.

    Bytes, None for no limit: `kv_budget` for what the rows in use may grow to at the most, prefixes held for waiting
    requests included; `total_budget` for those and the prefix cache together. Cached prefixes give way to rows.
    """

    max_lanes: int | None = None
    prefill_chunk: int = 256
    prefill_chunk_idle: int = 512
    prefill_seconds: float | None = None
    prefill_seconds_idle: float | None = None
    max_waiting: int = 64
    kv_budget: int | None = None
    total_budget: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_lanes", "prefill_chunk", "prefill_chunk_idle", "kv_budget", "total_budget"):
            value: int | None = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.max_waiting < 0:
            raise ValueError("max_waiting must not be negative")

    def lanes(self, engine_lanes: int) -> int:
        """Rows that decode together on an engine that can do `engine_lanes`."""
        return engine_lanes if self.max_lanes is None else min(self.max_lanes, engine_lanes)

    @property
    def row_budget(self) -> int | None:
        """Bytes all rows together may take."""
        budgets = [budget for budget in (self.kv_budget, self.total_budget) if budget is not None]
        return min(budgets, default=None)
