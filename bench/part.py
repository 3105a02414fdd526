"""What every part of the bench takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bench.row import Row, Trouble


@dataclass(frozen=True)
class Options:
    """`rounds` of each workload; `quick` takes small sizes; `blas` is a library for MLX to multiply with, if any;
    `model` is the starter model's GGUF file, fetched when it is not named."""

    rounds: int = 3
    quick: bool = False
    blas: str | None = None
    model: Path | None = None

    def gguf(self) -> Path:
        """The starter model's file."""
        if self.model is not None:
            return self.model
        from dragoman.catalog.fetch import fetch_starter

        return fetch_starter()


@dataclass
class Outcome:
    """What parts measured; `servers` is how each was started, `notes` are tables that are no rows."""

    rows: list[Row] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    servers: dict[str, str] = field(default_factory=dict)
    notes: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Take in what another part measured."""
        self.rows += other.rows
        self.troubles += other.troubles
        self.servers |= other.servers
        self.notes |= other.notes
