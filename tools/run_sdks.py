"""`make sdks`: other SDKs, pinned: JavaScript's of four vendors and OpenAI's Python of two majors ago against the
scripted engine, OpenAI's also against the starter model on llama.cpp and MLX. Needs npm; installs into .cache/sdks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "sdks"
CHECKS = "checks.mjs"
SCRIPTS = Path(__file__).parent / "sdks"
SCRIPT = ROOT / "tests" / "wire" / "data" / "script.json"
JAVASCRIPT = "openai@7.59.0"
ANTHROPIC = "@anthropic-ai/sdk@1.14.0"
OLLAMA = "ollama@0.6.4"
AI = ("ai@6.0.326", "@ai-sdk/openai@3.0.141", "@ai-sdk/anthropic@3.0.140", "@ai-sdk/openai-compatible@2.0.92")
OLD_PYTHON = "openai==1.109.1"
TIMEOUT = 400


def main() -> None:
    """Install, serve, run every suite. Exit status 1 when one failed."""
    sys.path.insert(0, str(ROOT))
    from bench.servers import dragoman

    suites = {
        "python": _old_python("openai_old.py"),
        "javascript": _javascript("openai_js.mjs"),
        "anthropic": _node("anthropic_js.mjs", ANTHROPIC),
        "ollama": _node("ollama_js.mjs", OLLAMA),
    }
    with dragoman("--engine", "fake", "--script", str(SCRIPT), "--ephemeral") as server:
        failed = [name for name, command in suites.items() if not _run(name, [*command, server.url])]
    # Objects are masked as they are written, which this engine does only where its script says so.
    with dragoman("--engine", "fake", "--script", str(_masking_script()), "--ephemeral") as server:
        failed += [] if _run("ai", [*_node("ai_js.mjs", *AI), server.url]) else ["ai"]
    for engine in ("llamacpp", "mlx"):
        with dragoman(_starter(), "--engine", engine, "--ctx", "2048", "--ephemeral") as server:
            own = {"python": _old_python("engines_old.py"), "javascript": _javascript("engines_js.mjs")}
            failed += [name for name, command in own.items() if not _run(f"{name}, {engine}", [*command, server.url])]
    raise SystemExit(bool(failed))


def _starter() -> str:
    """The starter model, fetched once."""
    from dragoman.catalog.fetch import fetch_starter

    return os.environ.get("DRAGOMAN_TEST_GGUF") or str(fetch_starter())


def _masking_script() -> Path:
    script = json.loads(SCRIPT.read_text())
    # Byte by byte: where a grammar leaves no choice, it takes no token but the one its text is encoded to.
    said = '<tool_call>\n{"name": "json", "arguments": {"place": "Oslo"}}\n</tool_call>'
    call = [{"bytes": [byte]} for byte in said.encode()]
    script["rules"] = [
        {"regex": '"name": ?"json".*OBJECT', "pieces": call},
        {"match": "OBJECT", "pieces": ['{"place":', ' "Oslo"}']},
        *script["rules"],
    ]
    path = HOME / "script.json"
    path.write_text(json.dumps({**script, "grammar": True}))
    return path


def _run(name: str, command: list[str]) -> bool:
    print(f"== {name}", flush=True)
    return subprocess.run(command, timeout=TIMEOUT, check=False).returncode == 0


def _old_python(script: str) -> list[str]:
    folder = HOME / "python-1"
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        uv = Path(sys.executable).with_name("uv")
        install = [str(uv), "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), OLD_PYTHON]
        subprocess.run(install, check=True)
    return [str(folder / "bin" / "python"), str(SCRIPTS / script)]


def _javascript(script: str) -> list[str]:
    return _node(script, JAVASCRIPT)


def _node(script: str, *packages: str) -> list[str]:
    """The command of a script, with its packages installed in a folder of their own."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise SystemExit("npm and node are needed for the JavaScript SDKs.")
    folder = HOME / Path(script).stem
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), *packages]
    subprocess.run(command, check=True, env={**os.environ, "npm_config_update_notifier": "false"})
    shutil.copy(SCRIPTS / CHECKS, folder / CHECKS)
    return [node, str(shutil.copy(SCRIPTS / script, folder / script))]


if __name__ == "__main__":
    main()
