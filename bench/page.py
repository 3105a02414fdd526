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
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "\n\n".join(section(one) for one in documents)), "utf-8")


def replaced(page: str, text: str) -> str:
    """`page` with `text` between its marks. Raises ValueError when it has none."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{head}{begin}\n{text}\n{end}{tail}"


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
