"""The llama.cpp child is killed in the middle of an answer: its stream ends with an error, the server goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx2
import pytest

from dragoman.config import EngineSettings, ListenSettings, LogSettings, Settings
from tests.support.running import running
from tests.wire.clients import openai_chat


def children() -> set[int]:
    """Process ids of this process's llama.cpp children."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"dragoman.backend.llamacpp.child" in line:
            found.add(int(folder.name))
    return found


@pytest.mark.llamacpp
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the child through /proc")
def test_killed_child(starter_gguf: Path) -> None:
    pytest.importorskip("xllamacpp")
    before = children()
    settings = Settings(
        model=str(starter_gguf),
        listen=ListenSettings(port=0),
        engine=EngineSettings(engine="llamacpp", ctx=1024, max_lanes=2, threads=1),
        log=LogSettings(level="error"),
    )
    with running(settings) as server:
        (child,) = children() - before
        asked = {"prompt": "Once upon a time", "n_predict": 900, "stream": True, "ignore_eos": True}
        with httpx2.stream("POST", f"{server.url}/completion", json=asked, timeout=60) as reply:
            lines = reply.iter_lines()
            first = next(line for line in lines if line.startswith("data: "))
            assert '"stop":false' in first
            os.kill(child, signal.SIGKILL)
            rest = [line for line in lines if line]
        assert "error" in rest[-1]
        answer = retry(server.url)
        assert answer
        assert child not in children()
        assert server.stats().restarts == 1
    assert children() == before


def retry(url: str) -> str:
    """Ask until the restarted engine answers."""
    end = time.monotonic() + 60
    while True:
        try:
            return openai_chat(url, "Say hello.", 4, False)
        except Exception:
            assert time.monotonic() < end
            time.sleep(0.2)
