"""Which LoRA adapters a request wants, and how strongly. Knows no file and no engine."""

from __future__ import annotations

from msgspec import Struct


class AdapterScale(Struct, frozen=True):
    """A mounted adapter by its name; its deltas are multiplied by `scale`, 0 leaves it out."""

    name: str
    scale: float = 1.0
