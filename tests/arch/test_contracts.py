"""The import contracts of pyproject.toml hold, and name every dialect there is."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_dialect_is_under_contract() -> None:
    folders = {
        f"dragoman.dialects.{folder.name}"
        for folder in (ROOT / "src/dragoman/dialects").iterdir()
        if (folder / "endpoints.py").is_file()
    }
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    independent = next(contract for contract in contracts if contract["type"] == "independence")
    assert folders == set(independent["modules"])
