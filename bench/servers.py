"""Starts the servers that are measured, each in a process of its own, and stops them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 120


def free_port() -> int:
    """A TCP port nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextmanager
def dragoman(*arguments: str) -> Iterator[str]:
    """`dragoman serve` with `arguments`; yields its URL."""
    with _process([sys.executable, "-m", "dragoman", "serve", *arguments], "/health") as url:
        yield url


@contextmanager
def scripted(pieces: int) -> Iterator[str]:
    """The scripted engine at zero delay: every answer has `pieces` tokens."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        rule = {"match": "GO", "pieces": [f" word{index % 50}" for index in range(pieces)]}
        script.write_text(json.dumps({"rules": [rule], "lanes": 16, "context_length": 100_000}))
        with dragoman("--engine", "fake", "--script", str(script), "--log-level", "error") as url:
            yield url


@contextmanager
def bare_llamacpp(model: Path, lanes: int, context: int, threads: int) -> Iterator[str]:
    """llama.cpp's own HTTP server from the same wheel, without us."""
    code = (
        "import sys, time, xllamacpp as x\n"
        "p = x.CommonParams()\n"
        "model, lanes, context, threads, port = sys.argv[1], *map(int, sys.argv[2:])\n"
        "p.model.path, p.n_parallel, p.n_ctx, p.port = model, lanes, lanes * context, port\n"
        "p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads\n"
        "p.hostnames, p.ui, p.verbosity = ['127.0.0.1'], False, 0\n"
        "server = x.Server(p)\n"
        "time.sleep(86400)\n"
    )
    command = [sys.executable, "-c", code, str(model), str(lanes), str(context), str(threads)]
    with _process(command, "/health", positional_port=True) as url:
        yield url


@contextmanager
def _process(command: list[str], health: str, *, positional_port: bool = False) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [*command, str(port)] if positional_port else [*command, "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            _wait(process, url + health, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen, url: str, log) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                log.seek(0)
                said = log.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"{process.args[:4]} did not start: {said}") from error
            time.sleep(0.1)
