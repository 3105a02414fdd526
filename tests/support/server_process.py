"""A whole server in a process of its own, which can be killed without notice."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 30


class ServerProcess:
    """A server that answers. `url` has no trailing slash."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self._process = process

    def kill(self) -> None:
        """End it as a power cut would: no handler runs."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(STOP_SECONDS)


@contextmanager
def server_process(script: Path, state: Path, *flags: str) -> Iterator[ServerProcess]:
    """Start a server of the scripted engine on `state`; what is left of it is killed afterwards."""
    with serving("--engine", "fake", "--script", str(script), "--state-dir", str(state), *flags) as server:
        yield server


@contextmanager
def serving(*arguments: str) -> Iterator[ServerProcess]:
    """Start `dragoman serve` with these arguments on a free port; what is left of it is killed afterwards."""
    command = [sys.executable, "-m", "dragoman", "serve", *arguments, "--port", "0", "--log-level", "error"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        heard = ""
        while (found := re.search(r"ready at (http\S+)", heard)) is None:
            line = process.stderr.readline()
            assert line, f"the server ended before it was ready: {heard}"
            heard += line
        yield ServerProcess(found[1], process)
    finally:
        process.kill()
        process.wait(STOP_SECONDS)
        if process.stderr is not None:
            process.stderr.close()
