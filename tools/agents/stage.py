"""Runs one scenario in folders of its own and judges it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.agents.scenarios import NOTE, OLD, Ended, Scenario
from tools.agents.script import ANSWER
from tools.agents.tap import Exchange, Tap

TIMEOUT = 300
_QUIET = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "OPENCODE_DISABLE_AUTOUPDATE": "1", "DISABLE_AUTOUPDATER": "1"}


@dataclass(frozen=True)
class Verdict:
    """How a scenario went; `fault` is '' for well."""

    fault: str
    seconds: float
    exchanges: list[Exchange]


def perform(scenario: Scenario, mark: str, tap: Tap, folder: Path, programs: Path) -> Verdict:
    """Run it in `folder`; `mark` is what the script knows it by."""
    tap.take()
    began = time.monotonic()
    fault = ""
    try:
        said = run_agent(scenario.words, f"{mark}: do what there is to do.", tap.url, folder, programs, scenario.env)
        fault = "" if ANSWER in said else f"it answered something else: {said[-300:]!r}"
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        fault = str(error)
    exchanges = tap.take()
    ended = Ended(folder / "work", exchanges)
    faults = [fault, *(refused(exchanges)), *(check(ended) for check in scenario.checks)]
    return Verdict("; ".join(filter(None, faults)), time.monotonic() - began, exchanges)


def refused(exchanges: list[Exchange]) -> list[str]:
    """Each request that was answered with an error, or not at all."""
    bad = [exchange for exchange in exchanges if not 200 <= exchange.status < 400]
    return [f"{one.route} was answered {one.status}: {one.answer[:200]!r}" for one in bad]


def prepared(folder: Path) -> Path:
    """The folder an agent works in, with the note it is to read."""
    work = folder / "work"
    work.mkdir(parents=True)
    (folder / "home").mkdir()
    (work / NOTE).write_text(f"{OLD}\n")
    return work


def run_agent(words: tuple[str, ...], prompt: str, url: str, folder: Path, programs: Path, env: dict[str, str]) -> str:
    """What the agent said. Raises RuntimeError with its last words where its exit status is not 0."""
    work = folder / "work"
    command = [
        sys.executable,
        "-m",
        "dragoman",
        "agent",
        "--url",
        url,
        *(prompt if w == "PROMPT" else w for w in words),
    ]
    surroundings = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")},
        **_QUIET,
        "HOME": str(folder / "home"),
        "PWD": str(work),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        **env,
    }
    done = subprocess.run(
        command,
        cwd=work,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return done.stdout
