"""Starts the servers that are measured, each in a process of its own, and stops them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

START_SECONDS = 120
STOP_SECONDS = 20
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True)
class Server:
    """A server that answers. `command` is how it was started, without machine paths; `name` says what it is."""

    name: str
    url: str
    pid: int
    command: str

    def cpu_seconds(self) -> float | None:
        """CPU time of all threads so far, to the nanosecond (/proc/PID/task/TID/schedstat, first field). None where the
        system does not tell."""
        try:
            threads = list(Path(f"/proc/{self.pid}/task").iterdir())
            return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
        except OSError:
            return None


def free_port() -> int:
    """A TCP port nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextmanager
def dragoman(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """`dragoman serve` with `arguments`."""
    command = [sys.executable, "-m", "dragoman", "serve", *arguments, "--log-level", "error"]
    with process("dragoman", command, env) as server:
        yield server


@contextmanager
def scripted(pieces: int, lanes: int = 16) -> Iterator[Server]:
    """The scripted engine at zero delay: every answer has `pieces` tokens."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        rule = {"match": "GO", "pieces": [f" word{index % 50}" for index in range(pieces)]}
        script.write_text(json.dumps({"rules": [rule], "lanes": lanes, "context_length": 100_000}))
        with dragoman("--engine", "fake", "--script", str(script)) as server:
            yield server


@contextmanager
def mlx_lm(model: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """mlx-lm's own server on a checkpoint folder. It answers /health before the model is loaded; the first request
    waits for that."""
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model), "--log-level", "ERROR", *arguments]
    with process("mlx_lm.server", command, env) as server:
        yield server


@contextmanager
def bare_llamacpp(model: Path, lanes: int, context: int, threads: int) -> Iterator[Server]:
    """llama.cpp's own HTTP server from the same wheel, without us."""
    code = (
        "import sys, time, xllamacpp as x\n"
        "p = x.CommonParams()\n"
        "model, lanes, context, threads, _, port = sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:]\n"
        "p.model.path, p.n_parallel, p.n_ctx, p.port = model, lanes, lanes * context, int(port)\n"
        "p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads\n"
        "p.hostnames, p.ui, p.verbosity = ['127.0.0.1'], False, 0\n"
        "server = x.Server(p)\n"
        "time.sleep(86400)\n"
    )
    command = [sys.executable, "-c", code, str(model), str(lanes), str(context), str(threads)]
    with process("llama.cpp", command, None) as server:
        yield server


@contextmanager
def process(name: str, command: list[str], env: Mapping[str, str] | None) -> Iterator[Server]:
    """A server that takes `--port`, from when it answers until the block ends. Raises RuntimeError with what it said
    when it does not come up."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [*command, "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **OFFLINE, **(env or {})}
        )
        try:
            _wait(process, f"{url}/health", log)
            yield Server(name, url, process.pid, told(command, env))
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def told(command: list[str], env: Mapping[str, str] | None) -> str:
    """A command for the record: program code left out, paths cut to their last part."""
    words = ["python" if word == sys.executable else "..." if "\n" in word else _last(word) for word in command]
    return " ".join([*(f"{name}={_last(value)}" for name, value in (env or {}).items()), *words[:-2]])


def _last(word: str) -> str:
    return Path(word).name if word.startswith("/") else word


def _wait(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                log.seek(0)
                said = log.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"{url} did not answer: {said}") from error
            time.sleep(0.1)
