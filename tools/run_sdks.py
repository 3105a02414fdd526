"""`make sdks`: other SDKs of the OpenAI wires, pinned, against the scripted engine: JavaScript's, and Python's of two
majors ago. Needs npm for the former; installs into .cache/sdks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "sdks"
SCRIPTS = Path(__file__).parent / "sdks"
SCRIPT = ROOT / "tests" / "wire" / "data" / "script.json"
JAVASCRIPT = "openai@7.59.0"
OLD_PYTHON = "openai==1.109.1"
TIMEOUT = 180


def main() -> None:
    """Install, serve, run every suite. Exit status 1 when one failed."""
    sys.path.insert(0, str(ROOT))
    from bench.servers import dragoman

    suites = {"python": _old_python(), "javascript": _javascript()}
    with dragoman("--engine", "fake", "--script", str(SCRIPT)) as server:
        failed = [name for name, command in suites.items() if not _run(name, [*command, server.url])]
    raise SystemExit(bool(failed))


def _run(name: str, command: list[str]) -> bool:
    print(f"== {name}", flush=True)
    return subprocess.run(command, timeout=TIMEOUT, check=False).returncode == 0


def _old_python() -> list[str]:
    folder = HOME / "python-1"
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        uv = Path(sys.executable).with_name("uv")
        install = [str(uv), "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), OLD_PYTHON]
        subprocess.run(install, check=True)
    return [str(folder / "bin" / "python"), str(SCRIPTS / "openai_old.py")]


def _javascript() -> list[str]:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise SystemExit("npm and node are needed for the JavaScript SDK.")
    folder = HOME / "javascript"
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), JAVASCRIPT]
    subprocess.run(command, check=True, env={**os.environ, "npm_config_update_notifier": "false"})
    # A module finds its packages beside itself.
    script = shutil.copy(SCRIPTS / "openai_js.mjs", folder / "openai_js.mjs")
    return [node, str(script)]


if __name__ == "__main__":
    main()
