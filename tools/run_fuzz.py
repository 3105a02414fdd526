"""`make fuzz-api`: schemathesis, pinned, asks the scripted engine and two small models everything its OpenAPI document
allows and much that it does not. Installs into .cache/fuzz; prints what was asked and how it was answered."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "fuzz"
CHECKS = Path(__file__).parent / "fuzz"
SCRIPT = ROOT / "tests" / "wire" / "data" / "script.json"
SCHEMATHESIS = "schemathesis==4.32.5"
CHECKED = (
    "no_failure_of_the_server",
    "wrong_methods_are_refused",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


def main() -> None:
    """Install, serve, ask. Exit status 1 when a reply was not as documented."""
    options = _options()
    command = [str(_installed()), "run"]
    sys.path.insert(0, str(ROOT))
    from bench.servers import dragoman
    from tests.support.bert_files import random_bert, write_bert_folder

    bert = HOME / "bert"
    if not bert.exists():
        write_bert_folder(bert, random_bert(1))
    served = {
        "scripted": (("--engine", "fake", "--script", str(SCRIPT)), ()),
        "embeddings": (("--engine", "mlx", str(bert), "--rerank-cosine"), ("--include-path-regex", "embed|rerank")),
    }
    failed: list[str] = []
    for name, (flags, chosen) in served.items():
        print(f"== {name}", flush=True)
        with dragoman(*flags, "--ephemeral") as server:
            failed += [] if _run([*command, *chosen], server.url, options) else [name]
    raise SystemExit(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz the HTTP surface by its OpenAPI document.")
    parser.add_argument(
        "--examples", type=int, default=12, help="random cases per operation beside the systematic ones"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _installed() -> Path:
    program = HOME / "venv" / "bin" / "st"
    if not program.exists():
        python = HOME / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(HOME / "venv")], check=True)
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([str(uv), "pip", "install", "--quiet", "--python", str(python), SCHEMATHESIS], check=True)
    return program


def _run(command: list[str], url: str, options: argparse.Namespace) -> bool:
    arguments = [
        *command, f"{url}/openapi.json",
        "--checks", ",".join(CHECKED),
        "--phases", "coverage,fuzzing",
        "--mode", "all",
        "--max-examples", str(options.examples),
        "--seed", str(options.seed),
        "--request-timeout", "30",
        "--continue-on-failure",
        "--warnings", "off",
        "--no-color",
    ]  # fmt: skip
    found = {"SCHEMATHESIS_HOOKS": "checks", "PYTHONPATH": str(CHECKS)}
    return subprocess.run(arguments, env={**os.environ, **found}, cwd=HOME, check=False).returncode == 0


if __name__ == "__main__":
    main()
