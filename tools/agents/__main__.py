"""`make agents`: each agent's tool loop against the scripted engine, or, with `--model GGUF`, its cache on a real one.

Names of scenarios, or their beginnings, choose some: `make agents ARGS='codex pi-chat'`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.servers import dragoman
from tools.agents.install import install
from tools.agents.scenarios import SCENARIOS, Scenario
from tools.agents.script import Step, script
from tools.agents.stage import perform, prepared
from tools.agents.tap import Exchange, Tap, tapped


def main() -> None:
    """Exit status 1 when a scenario failed."""
    parser = argparse.ArgumentParser(prog="make agents", description=__doc__)
    parser.add_argument("names", nargs="*", help="scenarios to run; none: all")
    parser.add_argument("--model", help="a GGUF file, or a name `dragoman serve` knows, to measure prefix caching on")
    options = parser.parse_args()
    programs = install()
    if options.model:
        from tools.agents.caching import measure

        raise SystemExit(measure(options.model, options.names, programs))
    raise SystemExit(run_scripted(options.names, programs))


def run_scripted(names: list[str], programs: Path) -> bool:
    """Whether something failed."""
    chosen = {name: one for name, one in SCENARIOS.items() if not names or name.startswith(tuple(names))}
    if not chosen:
        raise SystemExit(f"No scenario is called so. There are: {', '.join(SCENARIOS)}")
    failed = False
    seen: list[Exchange] = []
    with tempfile.TemporaryDirectory() as name, _tap(chosen, Path(name)) as tap:
        for label, scenario in chosen.items():
            verdict = perform(scenario, mark_of(label), tap, Path(name) / label, programs)
            seen += verdict.exchanges
            failed |= bool(verdict.fault)
            print(f"{label:20} {verdict.seconds:6.1f} s  {verdict.fault or 'ok'}", flush=True)
    _tell(seen)
    return failed


def mark_of(label: str) -> str:
    """The word in the user's prompt that the script knows a scenario by."""
    return f"TASK-{label.upper()}"


@contextmanager
def _tap(chosen: dict[str, Scenario], folder: Path) -> Iterator[Tap]:
    steps: dict[str, tuple[Step, ...]] = {}
    for label, scenario in chosen.items():
        work = prepared(folder / label)
        steps[mark_of(label)] = tuple(_placed(step, work) for step in scenario.steps)
    file = folder / "script.json"
    file.write_text(json.dumps(script(steps)))
    with dragoman("--engine", "fake", "--script", str(file), "--ephemeral") as server, tapped(server.url) as tap:
        yield tap


def _placed(step: Step, work: Path) -> Step:
    """With the folder's name where an argument wants it."""
    arguments = {
        name: value.replace("{FOLDER}", str(work)) if isinstance(value, str) else value
        for name, value in step.arguments.items()
    }
    return replace(step, arguments=arguments)


def _tell(seen: list[Exchange]) -> None:
    """How many requests each route had, by status."""
    counts = Counter((exchange.route, exchange.status) for exchange in seen)
    print("\nrequests seen:")
    for (route, status), count in sorted(counts.items()):
        print(f"  {route:32} {status}  {count}")


if __name__ == "__main__":
    main()
