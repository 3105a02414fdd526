"""The manifest as data: its entries, and where they are. Checks nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "compat" / "llama-server" / "b10621"

State = Literal["supported", "aliased", "not_applicable", "deferred", "by_design"]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing llama-server has. `id` names it within its kind; `claim` is what we say of it, `test` the pytest node
    that shows it, `divergence` how and why it differs."""

    id: str
    state: State
    claim: str = ""
    test: str = ""
    divergence: str = ""


class FlagEntry(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flag with all its spellings and environment variables."""

    spellings: list[str] = []
    variables: list[str] = []


class FuzzEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A difference that random requests find and that is meant: regular expressions for the path and for what differs,
    and the reason."""

    path: str
    what: str
    why: str


class Manifest(Struct, frozen=True, kw_only=True):
    """All of it. `exchanges` are recordings that are not equalled."""

    routes: list[Entry]
    fields: list[Entry]
    flags: list[FlagEntry]
    exchanges: list[Entry]
    fuzz: list[FuzzEntry]


def load(folder: Path = FOLDER) -> Manifest:
    """Raises msgspec.ValidationError for what is no manifest."""

    def read(name: str, kind: type[Struct]) -> list[Struct]:
        return msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=list[kind])

    kinds = {"routes": Entry, "fields": Entry, "flags": FlagEntry, "exchanges": Entry, "fuzz": FuzzEntry}
    return msgspec.convert({name: read(name, kind) for name, kind in kinds.items()}, Manifest, from_attributes=True)
