"""`make agents`: real coding agents, pinned, against the scripted engine. Needs npm; installs into .cache/agents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "agents"
PACKAGES = ("@anthropic-ai/claude-code@2.1.197", "@mariozechner/pi-coding-agent@0.73.1")
ANSWER = "The answer of the scripted engine."
SCRIPT = {"rules": [{"pieces": ["The", " answer", " of", " the", " scripted", " engine."]}], "context_length": 200_000}
TIMEOUT = 180


def main() -> None:
    """Install, serve, run each agent for one turn, and report. Exit status 1 when one did not answer."""
    sys.path.insert(0, str(ROOT))
    from bench.servers import dragoman

    _install()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        with dragoman("--engine", "fake", "--script", str(script)) as server:
            results = {name: _try(run, server.url, Path(folder) / name) for name, run in AGENTS.items()}
    for name, fault in results.items():
        print(f"{name}: {'ok' if fault is None else fault}")
    raise SystemExit(any(results.values()))


def claude_code(url: str, folder: Path) -> str:
    """Claude Code, one prompt, on the Messages wire."""
    settings = {
        "HOME": str(folder),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "unused",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    command = ["claude", "-p", "--bare", "--tools", "Bash", "--model", "fake", "--output-format", "json", "Say hello."]
    return json.loads(_run(command, folder, settings))["result"]


def pi_chat(url: str, folder: Path) -> str:
    """pi on the Chat Completions wire."""
    return _pi(url, folder, "openai-completions", f"{url}/v1")


def pi_messages(url: str, folder: Path) -> str:
    """pi on the Messages wire."""
    return _pi(url, folder, "anthropic-messages", url)


def _pi(url: str, folder: Path, api: str, base: str) -> str:
    model = {"id": "fake", "name": "fake"}
    provider = {"baseUrl": base, "api": api, "apiKey": "unused", "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    settings = {"PI_CODING_AGENT_DIR": str(folder), "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "HOME": str(folder)}
    command = ["pi", "-p", "--no-session", "--provider", "local", "--model", "fake", "Say hello."]
    return _run(command, folder, settings)


AGENTS: dict[str, Callable[[str, Path], str]] = {
    "claude-code": claude_code,
    "pi-chat": pi_chat,
    "pi-messages": pi_messages,
}


def _try(run: Callable[[str, Path], str], url: str, folder: Path) -> str | None:
    folder.mkdir()
    try:
        said = run(url, folder)
    except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"
    return None if ANSWER in said else f"answered something else: {said[-300:]!r}"


def _run(command: list[str], folder: Path, settings: dict[str, str]) -> str:
    program = str(HOME / "node_modules" / ".bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return done.stdout


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is needed to install the agents; it comes with Node.js 20 or newer.")
    HOME.mkdir(parents=True, exist_ok=True)
    wanted = HOME / "installed.json"
    if wanted.is_file() and json.loads(wanted.read_text()) == list(PACKAGES):
        return
    print(f"Installing {', '.join(PACKAGES)} into {HOME.relative_to(ROOT)} …", flush=True)
    (HOME / "package.json").write_text('{"private": true}')
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES], cwd=HOME, check=True)
    wanted.write_text(json.dumps(PACKAGES))


if __name__ == "__main__":
    main()
