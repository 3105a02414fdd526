"""Starting and stopping: a binary under guard, a URL, and the child where it cannot work."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dragoman.backend.llamacpp.address import sweep
from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.launch import RemoteLauncher
from dragoman.backend.llamacpp.logtail import LogTail
from dragoman.backend.llamacpp.process import EngineProcess
from dragoman.core.errors import EngineFailure
from tests.backend.llamacpp.processes import alive, children, gone_soon
from tests.backend.llamacpp.rig import QUICK, ask, chunks_of, eventually_ids, ids_of
from tests.support import llama_stub
from tests.support.llama_stub import Stub

pytestmark = pytest.mark.anyio
posix = pytest.mark.skipif(os.name != "posix", reason="needs a shell")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """A llama-server as far as arguments and wire go."""
    path = tmp_path / "llama-server"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{llama_stub.__file__}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def options(**fields: Any) -> LlamaCppOptions:
    return LlamaCppOptions(**({"model": "m.gguf", "lanes": 2, "context": 300, "threads": 1} | fields))


@posix
async def test_a_binary_is_started_used_and_stopped(binary: Path, own_temporary_folder: Path) -> None:
    lines: list[str] = []
    backend = LlamaCppBackend(options(llama_server=str(binary), log_sink=lines.append))
    await backend.start()
    guard = backend.pid
    assert guard is not None
    assert backend.context_length == 300
    assert backend.build == "llama.cpp b0-stub"
    assert len(ids_of(await chunks_of(backend, ask()))) == 8
    folder = next(own_temporary_folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    processes = [guard, *(children(guard) if sys.platform.startswith("linux") else [])]
    await backend.stop()
    assert not any(map(alive, processes))
    assert list(own_temporary_folder.iterdir()) == []
    assert "stub is loading" in lines
    assert any(line.startswith("listening") for line in backend.log_tail())


@posix
async def test_a_binary_that_fails_says_why(binary: Path, own_temporary_folder: Path) -> None:
    backend = LlamaCppBackend(options(llama_server=str(binary), engine_args=("--fail",)))
    with pytest.raises(EngineFailure, match=r"'m\.gguf'.*status 1 \(invalid magic characters"):
        await backend.start()
    assert backend.health().status == "failed"
    await backend.stop()
    assert list(own_temporary_folder.iterdir()) == []


@posix
async def test_a_binary_that_loads_too_long_is_ended(binary: Path) -> None:
    backend = LlamaCppBackend(options(llama_server=str(binary), engine_args=("--load", "60"), load_timeout=1.0))
    with pytest.raises(EngineFailure, match="within 1 seconds"):
        await backend.start()
    await backend.stop()


async def test_no_such_binary_and_arguments_that_are_ours() -> None:
    with pytest.raises(EngineFailure, match="no program"):
        await LlamaCppBackend(options(llama_server="/no/such/llama-server")).start()
    with pytest.raises(EngineFailure, match="argument --port cannot be used"):
        await LlamaCppBackend(options(llama_server=sys.executable, engine_args=("--port=1",))).start()
    with pytest.raises(EngineFailure, match="runs already cannot be given --mlock"):
        await LlamaCppBackend(options(llama_server="http://127.0.0.1:1", engine_args=("--mlock",))).start()
    with pytest.raises(EngineFailure, match="'--rpc' is not known"):
        await LlamaCppBackend(options(engine_args=("--rpc", "x"))).start()


@linux
async def test_a_killed_binary_is_started_again(binary: Path) -> None:
    backend = LlamaCppBackend(options(llama_server=str(binary)), policy=QUICK)
    await backend.start()
    try:
        assert backend.pid is not None
        server = children(backend.pid)[0]
        stream = await backend.submit(ask(max_tokens=250))
        await anext(stream)
        os.kill(server, signal.SIGKILL)
        with pytest.raises(EngineFailure, match="while it was answering"):
            async for _chunk in stream:
                pass
        assert len(await eventually_ids(backend, ask())) == 8
        assert backend.stats().restarts == 1
    finally:
        await backend.stop()


@linux
async def test_a_binary_dies_with_its_parent(binary: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.backend.llamacpp.orphan", "m.gguf", str(binary)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    guard = int(await asyncio.to_thread(parent.stdout.readline))
    server = children(guard)[0]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone_soon(guard)
    assert gone_soon(server)


@linux
async def test_a_binary_dies_with_its_guard(binary: Path) -> None:
    backend = LlamaCppBackend(options(llama_server=str(binary)), policy=QUICK)
    await backend.start()
    try:
        assert backend.pid is not None
        server = children(backend.pid)[0]
        os.kill(backend.pid, signal.SIGKILL)
        assert await asyncio.to_thread(gone_soon, server)
    finally:
        await backend.stop()


async def test_a_url_is_used_as_it_is() -> None:
    stub = Stub(n_ctx=99, slots=3)
    port = await stub.listen()
    backend = LlamaCppBackend(options(llama_server=f"http://127.0.0.1:{port}"))
    await backend.start()
    assert (backend.context_length, backend.capabilities.lanes, backend.pid) == (99, 2, None)
    assert len(ids_of(await chunks_of(backend, ask()))) == 8
    await backend.stop()
    assert (await _health(port)) == 200, "a server that is not ours goes on"
    await stub.close()


async def _health(port: int) -> int:
    from dragoman.backend.llamacpp.client import Client
    from dragoman.backend.llamacpp.endpoint import Endpoint

    return (await Client(Endpoint(host="127.0.0.1", port=port)).request("GET", "/health", patience=5))[0]


async def test_a_url_that_goes_away_and_comes_back() -> None:
    stub = Stub()
    port = await stub.listen()
    url = f"http://127.0.0.1:{port}"
    launcher = RemoteLauncher(options(llama_server=url), interval=0.02)
    backend = LlamaCppBackend(options(llama_server=url), launcher=launcher, policy=QUICK)
    await backend.start()
    await stub.close()
    async with asyncio.timeout(10):
        while backend.health().status == "ok":
            await asyncio.sleep(0.01)
    again = Stub(n_ctx=stub.n_ctx)
    await again.listen(port=port)
    assert len(await eventually_ids(backend, ask())) == 8
    await backend.stop()
    await again.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
async def test_a_url_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    stub = Stub()
    port = await stub.listen(tls=context)
    url = f"https://localhost:{port}"
    with pytest.raises(EngineFailure, match="certificate"):
        await LlamaCppBackend(options(llama_server=url)).start()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    backend = LlamaCppBackend(options(llama_server=url))
    await backend.start()
    assert len(ids_of(await chunks_of(backend, ask()))) == 8
    await backend.stop()
    await stub.close()


async def test_a_url_nobody_answers() -> None:
    with pytest.raises(EngineFailure, match="cannot be used"):
        await LlamaCppBackend(options(llama_server="http://127.0.0.1:1")).start()


async def test_a_url_that_is_not_a_llama_server() -> None:
    stub = Stub()
    stub.status["/props"] = (200, {"hello": "world"})
    port = await stub.listen()
    backend = LlamaCppBackend(options(llama_server=f"http://127.0.0.1:{port}"))
    with pytest.raises(EngineFailure, match="/props"):
        await backend.start()
    await backend.stop()
    await stub.close()


async def test_a_url_that_loads_for_ever_is_given_up() -> None:
    stub = Stub(healthy=False)
    port = await stub.listen()
    backend = LlamaCppBackend(options(llama_server=f"http://127.0.0.1:{port}", load_timeout=0.2))
    with pytest.raises(EngineFailure, match="not ready"):
        await backend.start()
    await stub.close()


@posix
def test_folders_of_killed_engines_are_swept_up(tmp_path: Path) -> None:
    def socket_in(name: str, *, old: bool, listening: bool) -> socket.socket:
        folder = tmp_path / name
        folder.mkdir()
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(folder / "engine.sock"))
        if listening:
            made.listen()
        if old:
            os.utime(folder / "engine.sock", (0, 0))
        return made

    sockets = [
        socket_in("dragoman-dead", old=True, listening=False),
        socket_in("dragoman-new", old=False, listening=False),
        socket_in("dragoman-live", old=True, listening=True),
        socket_in("other-dead", old=True, listening=False),
    ]
    sweep(tmp_path)
    for made in sockets:
        made.close()
    left = {path.name for path in tmp_path.glob("*-*")}
    assert left == {"dragoman-new", "dragoman-live", "other-dead"}


async def test_without_xllamacpp_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('No module named xllamacpp')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    backend = LlamaCppBackend(options())
    with pytest.raises(EngineFailure) as caught:
        await backend.start()
    assert "pip install 'dragoman[llamacpp]'" in caught.value.sentence


async def test_a_process_that_ignores_the_polite_signal_is_killed() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    process = await EngineProcess.spawn((sys.executable, "-c", code), LogTail())
    assert await process.first_line() == b"up"
    await process.stop(grace=0.05)
    await process.stop()
    assert process.ended
    assert process.ending() == "was killed by SIGKILL"


async def test_a_process_that_ends_at_once_leaves_its_words() -> None:
    log = LogTail()
    code = "import sys; print('x' * 3_000_000, file=sys.stderr); print('why', file=sys.stderr); sys.exit(7)"
    process = await EngineProcess.spawn((sys.executable, "-c", code), log)
    assert await process.first_line() == b""
    assert await process.wait() == 7
    assert process.ending() == "ended with status 7"
    assert log.lines()[-1] == "why"
    await process.stop()
