"""docs/llama-server.md, made of the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tools.compat.manifest import Entry, FlagEntry, Manifest, load

HEAD = """# llama-server, build 10621

Written by `make docs` from `compat/llama-server/b10621`; a test compares. The manifest is held against the mounted
routes, the tables of fields and flags, and the suite's tests, both ways (`python -m tools.compat`).

What llama-server's clients ask for works on both engines. Each entry is *supported* (equal), *aliased* (another
spelling, or a setting with another name), *by design* different, for the reason that is given, or *not applicable*.
"""
_FLAGS = """
## Flags

`dragoman llama-server ARGS…` takes a script's command line and its `LLAMA_ARG_…` variables, says which `dragoman serve`
line that amounts to, and serves. What cannot be honoured is refused by name.

`-c` is for all slots together, as there: with `-np N` each has an Nth of it; without, four share it and one request may
take it all. A GGUF file is served by llama.cpp, a checkpoint folder by MLX.
"""


def page(manifest: Manifest | None = None) -> str:
    """The whole page."""
    manifest = manifest or load()
    parts = [HEAD, _counts(manifest), "\n## Routes\n\n", _table("route", manifest.routes)]
    parts += ["\n## Fields\n\nOf `/completion` and `/completions`, and of `/infill` with them.\n\n"]
    parts += [_table("field", [entry for entry in manifest.fields if entry.state != "supported"])]
    parts += [
        "\nSupported: ",
        ", ".join(f"`{entry.id}`" for entry in manifest.fields if entry.state == "supported"),
        ".\n",
    ]
    parts += [_FLAGS, _flags(manifest.flags)]
    parts += ["\n## Recorded exchanges that are not equalled\n\n", _reasons(manifest.exchanges)]
    parts += ["\n## Differences that random requests find\n\n"]
    parts += [
        "`make fuzz` sends the same random bodies to this server and to llama.cpp's own and compares status, content\n"
    ]
    parts += [
        "type, keys and their order, settings in force, and the words of errors. What the other one does not answer\n"
        "at all (the bundled llama.cpp: an empty `prompt` with `n` 2) is counted as its own fault.\n\n"
        "| path | difference | reason |\n"
    ]
    parts += ["|---|---|---|\n"]
    parts += [f"| `{_cell(one.path)}` | `{_cell(one.what)}` | {_cell(one.why)} |\n" for one in manifest.fuzz]
    return "".join(parts)


def _counts(manifest: Manifest) -> str:
    rows = ["\n| | supported | aliased | by design | not applicable | deferred |\n|---|---|---|---|---|---|\n"]
    for name in ("routes", "fields", "flags"):
        counts = Counter(entry.state for entry in getattr(manifest, name))
        states = ("supported", "aliased", "by_design", "not_applicable", "deferred")
        rows.append(f"| {name} | {' | '.join(str(counts[state]) for state in states)} |\n")
    return "".join(rows)


def _table(kind: str, entries: Iterable[Entry]) -> str:
    head = f"| {kind} | state | here |\n|---|---|---|\n"
    return head + "".join(f"| `{entry.id}` | {_state(entry)} | {_cell(_said(entry))} |\n" for entry in entries)


def _flags(entries: Sequence[FlagEntry]) -> str:
    """Those of the engine in one line, the others one by one."""
    passed = ", ".join(f"`{entry.id}`" for entry in entries if entry.state == "supported")
    rows = [
        f"| {', '.join(f'`{name}`' for name in (*entry.spellings, *entry.variables))} | {_state(entry)} "
        f"| {_cell(_said(entry))} |\n"
        for entry in entries
        if entry.state != "supported"
    ]
    return f"\nGiven to llama.cpp as they are: {passed}.\n\n| flag | state | here |\n|---|---|---|\n{''.join(rows)}"


def _reasons(entries: Iterable[Entry]) -> str:
    rows = "".join(f"| `{entry.id}` | {_cell(entry.divergence)} |\n" for entry in entries)
    return f"| recording | reason |\n|---|---|\n{rows}"


def _state(entry: Entry) -> str:
    return entry.state.replace("_", " ")


def _said(entry: Entry) -> str:
    return " ".join(text for text in (entry.claim, entry.divergence) if text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
