"""Holds the manifest against the code and the suite, both ways. Each function gives what is wrong, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from dragoman.cli.llama_server.flags import Flag
from tools.compat.manifest import Entry, FlagEntry, Manifest
from tools.compat.suite import base_of

SERVED = frozenset({"supported", "aliased", "by_design"})
_MEANS = {
    "ours": "aliased",
    "made": "aliased",
    "engine": "supported",
    "nothing": "not_applicable",
    "refused": "by_design",
}


def entry_faults(entries: Iterable[Entry], tests: frozenset[str], *, may_defer: bool = False) -> Iterator[str]:
    """Whether each entry says what its state asks for, and names a test that exists."""
    entries = list(entries)
    for name, count in Counter(entry.id for entry in entries).items():
        if count > 1:
            yield f"{name} is there {count} times."
    for entry in entries:
        if entry.state in ("supported", "aliased") and entry.divergence:
            yield f"{entry.id} is {entry.state} and yet has a divergence."
        if entry.state not in ("supported", "aliased") and not entry.divergence:
            yield f"{entry.id} is {entry.state} and does not say how it differs and why."
        if entry.state in SERVED and not entry.claim:
            yield f"{entry.id} is {entry.state} and claims nothing."
        if entry.state in SERVED and not entry.test:
            yield f"{entry.id} is {entry.state} and names no test."
        if entry.state == "deferred" and not may_defer:
            yield f"{entry.id} is deferred, which no entry of its kind may be."
        if entry.test and base_of(entry.test) not in tests:
            yield f"{entry.id} names a test that does not exist: {entry.test}"


def route_faults(entries: Iterable[Entry], mounted: frozenset[str], native: frozenset[str]) -> Iterator[str]:
    """Whether what is claimed is mounted, and what is mounted for llama-server's clients is claimed."""
    states = {entry.id: entry.state for entry in entries}
    for name, state in states.items():
        if state in SERVED and name not in mounted:
            yield f"{name} is {state} and not mounted."
        if state not in SERVED and name in mounted:
            yield f"{name} is {state} and mounted all the same."
    for name in sorted(native - states.keys()):
        yield f"{name} is mounted and not in the manifest."


def field_faults(entries: Iterable[Entry], fields: frozenset[str], aliases: Mapping[str, str]) -> Iterator[str]:
    """Whether what is claimed is read, and what is read is claimed."""
    found = {entry.id: entry for entry in entries}
    for name, entry in found.items():
        if entry.state in SERVED and name not in fields:
            yield f"{name} is {entry.state} and not read."
        if entry.state not in SERVED and name in fields:
            yield f"{name} is {entry.state} and read all the same."
        if (entry.state == "aliased") != (name in aliases):
            yield f"{name} is {entry.state}, but {'an' if name in aliases else 'no'} alias in the table."
    for name in sorted(fields - found.keys()):
        yield f"{name} is read and not in the manifest."


def flag_faults(entries: Iterable[FlagEntry], flags: Mapping[str, Flag]) -> Iterator[str]:
    """Whether manifest and table of flags say the same."""
    found = {entry.id: entry for entry in entries}
    for name in sorted(found.keys() ^ flags.keys()):
        yield f"{name} is only in the {'manifest' if name in found else 'table of flags'}."
    for name, flag in flags.items():
        entry = found.get(name)
        if entry is None:
            continue
        if (tuple(entry.spellings), tuple(entry.variables)) != (flag.names, flag.variables):
            yield f"{name} is spelled otherwise in the table of flags."
        if entry.state != _MEANS[flag.means]:
            yield f"{name} is {entry.state}, but {_MEANS[flag.means]} in the table of flags."
        if flag.why and entry.divergence != flag.why:
            yield f"{name} gives another reason than the table of flags."


def exchange_faults(entries: Iterable[Entry], recordings: frozenset[str]) -> Iterator[str]:
    """Whether each is a recording, and by design."""
    for entry in entries:
        if entry.id not in recordings:
            yield f"{entry.id} is no recorded exchange."
        if entry.state != "by_design":
            yield f"{entry.id} is {entry.state}: a recording that is not equalled is by design or a fault."


class Facts:
    """What is to be held against the manifest."""

    def __init__(
        self,
        *,
        tests: frozenset[str],
        mounted: frozenset[str],
        native: frozenset[str],
        fields: frozenset[str],
        aliases: Mapping[str, str],
        flags: Mapping[str, Flag],
        recordings: frozenset[str],
    ) -> None:
        self.tests = tests
        self.mounted = mounted
        self.native = native
        self.fields = fields
        self.aliases = aliases
        self.flags = flags
        self.recordings = recordings


def faults(manifest: Manifest, facts: Facts) -> list[str]:
    """Everything that is wrong."""
    return [
        *entry_faults(manifest.routes, facts.tests),
        *entry_faults(manifest.fields, facts.tests),
        *entry_faults(manifest.flags, facts.tests, may_defer=True),
        *entry_faults(manifest.exchanges, facts.tests),
        *route_faults(manifest.routes, facts.mounted, facts.native),
        *field_faults(manifest.fields, facts.fields, facts.aliases),
        *flag_faults(manifest.flags, facts.flags),
        *exchange_faults(manifest.exchanges, facts.recordings),
    ]
