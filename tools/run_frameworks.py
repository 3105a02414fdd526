"""`make frameworks`: agent frameworks, pinned, through their tool and structured-output loops on the starter model.
Each gets an environment of its own in .cache/frameworks, since they disagree about the version of the SDKs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "frameworks"
LOOPS = Path(__file__).with_name("framework_loops.py")
"""Run with `-P`: beside it lies a package `agents`, and one of the frameworks is called so."""
TIMEOUT = 300
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "OTEL_SDK_DISABLED": "true", "NO_COLOR": "1"}


def main() -> None:
    """Install, serve the starter (or the model named by DRAGOMAN_TEST_GGUF), run the loops whose names begin with one
    of the arguments, or all, and report. Exit status 1 when one did not finish."""
    sys.path.insert(0, str(ROOT))
    from bench.servers import dragoman

    pythons = [_installed(pin) for pin in _pins()]
    named = os.environ.get("DRAGOMAN_TEST_GGUF")
    model = [named] if named else ["smollm2-135m"]
    with dragoman(*model, "--engine", "llamacpp", "--ctx", "4096", "--max-lanes", "1") as server:
        results = [result for python in pythons for result in run(python, server.url, sys.argv[1:])]
    raise SystemExit(not results or any(result["fault"] for result in results))


def run(python: Path, url: str, names: list[str]) -> list[dict[str, str | None]]:
    """The loops of the framework this environment has, each told when it is over."""
    prefix = python.parents[1].name.replace("-slim", "").replace("-", "_")
    listed = subprocess.run(
        [str(python), "-P", str(LOOPS)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    wanted = [name for name in listed if name.startswith(prefix) and name.startswith(tuple(names or [""]))]
    return [_loop(python, url, name) for name in wanted]


def _loop(python: Path, url: str, name: str) -> dict[str, str | None]:
    try:
        done = subprocess.run(
            [str(python), "-P", str(LOOPS), url, name],
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"loop"')]
        result = told[0] if told else {"loop": name, "fault": f"exit status {done.returncode}"}
    except subprocess.TimeoutExpired:
        result = {"loop": name, "fault": f"not over after {TIMEOUT} s"}
    print(f"{name}: {result['fault'] or 'ok'}", flush=True)
    return result


def _pins() -> list[str]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["frameworks"]


def _installed(pin: str) -> Path:
    """The Python of an environment that has this framework."""
    home = HOME / re.split(r"[\[=]", pin)[0]
    python, wanted = home / "bin" / "python", home / "installed.txt"
    if not (wanted.is_file() and wanted.read_text() == pin):
        print(f"Installing {pin} into {home.relative_to(ROOT)} …", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), pin], check=True)
        wanted.write_text(pin)
    return python


if __name__ == "__main__":
    main()
