"""The README's client snippets run as written, but for the port."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import RunningServer

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SECTION = README.split("## Five clients")[1].split("## Dialects")[0]
SNIPPETS = re.findall(r"```(\w+)\n(.*?)```", SECTION, flags=re.DOTALL)


def test_there_are_five() -> None:
    assert [kind for kind, _ in SNIPPETS] == ["sh", "python", "python", "python", "sh"]


@pytest.mark.llamacpp
@pytest.mark.parametrize(("kind", "text"), SNIPPETS, ids=["curl", "openai", "anthropic", "ollama", "llamacpp"])
def test_snippet(llamacpp: RunningServer, kind: str, text: str) -> None:
    text = text.replace("http://127.0.0.1:8080", llamacpp.url)
    command = ["bash", "-ec", text] if kind == "sh" else [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout or len(done.stdout.split()) > 2, done.stdout
