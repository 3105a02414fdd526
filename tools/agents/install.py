"""Installs the pinned agents with npm, once."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

HOME = Path(__file__).parents[2] / ".cache" / "agents"
PACKAGES = (
    "@anthropic-ai/claude-code@2.1.197",
    "@openai/codex@0.171.0",
    "@mariozechner/pi-coding-agent@0.73.1",
    "opencode-ai@1.18.33",
)


def install() -> Path:
    """The folder of the agents' programs. Raises SystemExit where there is no npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is needed to install the agents; it comes with Node.js 20 or newer.")
    wanted = HOME / "installed.json"
    if not wanted.is_file() or json.loads(wanted.read_text()) != list(PACKAGES):
        HOME.mkdir(parents=True, exist_ok=True)
        print(f"Installing {', '.join(PACKAGES)} into .cache/agents (1.2 GB) …", flush=True)
        (HOME / "package.json").write_text('{"private": true}')
        command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES]
        subprocess.run(command, cwd=HOME, check=True)
        wanted.write_text(json.dumps(PACKAGES))
    return HOME / "node_modules" / ".bin"
