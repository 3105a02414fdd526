"""Puts runs kept as JSON into docs/performance.md: `python -m bench.page [RUN.json ...]`, the last run by default."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.part import Outcome
from bench.report import OUT, speeds_to_reach, tables
from bench.row import Row, Trouble

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- runs -->", "<!-- end of runs -->"


def main(arguments: Sequence[str]) -> None:
    """Replace what stands between the two marks of the page."""
    documents = [json.loads(Path(name).read_text(encoding="utf-8")) for name in arguments or (OUT / "last.json",)]
    documents.sort(key=lambda document: document["when"])
    parts = [text for text in (by_run(documents), *map(section, newest(documents))) if text]
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "\n\n".join(parts)), "utf-8")


def replaced(page: str, text: str) -> str:
    """`page` with `text` between its marks. Raises ValueError when it has none."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{head}{begin}\n{text}\n{end}{tail}"


def by_run(documents: Sequence[dict[str, Any]]) -> str:
    """What each run, the oldest first, measured of the speeds to reach; empty where none was measured twice."""
    values: dict[str, list[str]] = {}
    for target in (target for document in documents for target in document["targets"] if target["value"] is not None):
        name = f"{target['what']} ({target['part']}) | {target['kind']} {target['bound']:g}"
        values.setdefault(name, []).append(
            f"{target['value']:.0f}" if target["value"] >= 100 else f"{target['value']:.2f}"
        )
    if all(len(found) < 2 for found in values.values()):
        return ""
    lines = [f"| {name} | {', '.join(found)} |" for name, found in values.items()]
    return "\n".join(
        ["### Speeds to reach, run by run", "", "| speed | to reach | measured |", "|---|---|---|", *lines]
    )


def newest(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with a part that no later run has, in their order."""
    parts = [{row["part"] for row in document["rows"]} for document in documents]
    return [one for at, one in enumerate(documents) if parts[at].difference(*parts[at + 1 :])]


def section(document: dict[str, Any]) -> str:
    """One run for readers: the machine, the tables, the speeds to reach, the commands."""
    outcome, machine, options = outcome_of(document), document["machine"], document["options"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    load = ", ".join(f"{value:.1f}" for value in machine["load average"])
    commands = "\n".join(f"{name}: {command}" for name, command in outcome.servers.items())
    verdicts = speeds_to_reach(outcome, full=False)
    return "\n".join(
        [
            f"### {document['when']}, {options['rounds']} rounds{', quick' if options['quick'] else ''}",
            "",
            f"{machine['system']}, {machine['cores']} cores, Python {machine['python']}; load average before the run "
            f"{load}; BLAS: {options['blas'] or 'none'}. {packages}.",
            *_block(tables(outcome)),
            *(_block(verdicts) if verdicts else ()),
            *(_block(commands) if commands else ()),
        ]
    )


def _block(text: str) -> list[str]:
    return ["", "```", text.strip("\n"), "```"]


def outcome_of(document: dict[str, Any]) -> Outcome:
    """What a run's JSON says was measured."""
    rows = [
        Row(row["part"], row["workload"], row["metric"], tuple(row["ours"]), tuple(row["peer"]))
        for row in document["rows"]
    ]
    troubles = [Trouble(**trouble) for trouble in document["troubles"]]
    return Outcome(rows=rows, troubles=troubles, servers=document["servers"], notes=document["notes"])


if __name__ == "__main__":
    main(sys.argv[1:])
