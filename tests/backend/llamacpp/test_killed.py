"""The child process is killed, stopped and cut off at every stage of its life. Nothing hangs, nobody is orphaned."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.backend.base import TokenStream
from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.supervisor import RestartPolicy
from dragoman.core.errors import DragomanError, EngineFailure, Unavailable
from tests.backend.llamacpp.processes import alive, children, gone_soon
from tests.backend.llamacpp.rig import QUICK, ask, chunks_of, eventually_ids, ids_of
from tests.support import llama_standin

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.llamacpp,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc"),
]

FRANCE = (504, 3575, 282, 4649, 314)
LONG = FRANCE * 180
SLOW = RestartPolicy(limit=3, window=60.0, first_delay=0.05, factor=1.0)


@asynccontextmanager
async def running(model: Path, **fields: Any) -> AsyncIterator[LlamaCppBackend]:
    options = {"lanes": 1, "context": 1024, "threads": 1, "engine_args": ("--no-warmup",)} | fields
    backend = LlamaCppBackend(LlamaCppOptions(model=str(model), **options), policy=SLOW)
    await backend.start()
    try:
        yield backend
    finally:
        pid = backend.pid
        async with asyncio.timeout(20):
            await backend.stop()
        assert pid is None or not alive(pid)


def pid_of(backend: LlamaCppBackend) -> int:
    assert backend.pid is not None
    return backend.pid


async def outcome(backend: LlamaCppBackend, started: list[int], tokens: int = 900) -> list[int] | DragomanError:
    found: list[int] = []
    try:
        async for chunk in await backend.submit(ask(FRANCE, tokens, progress=True)):
            found += chunk.tokens
            if chunk.tokens and len(found) < 3:
                started.append(1)
    except DragomanError as error:
        return error
    return found


async def drain(stream: TokenStream, found: list[int]) -> None:
    async for chunk in stream:
        found += chunk.tokens


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_killed_in_decode_with_four_streams(starter_gguf: Path) -> None:
    async with running(starter_gguf, lanes=4, context=1024) as backend:
        expected = ids_of(await chunks_of(backend, ask(FRANCE, 8)))
        started: list[int] = []
        asking = [asyncio.create_task(outcome(backend, started)) for _ in range(4)]
        waiting = asyncio.create_task(outcome(backend, [], 8))
        await until(lambda: len(started) >= 4)
        os.kill(pid_of(backend), signal.SIGKILL)
        async with asyncio.timeout(20):
            ends = await asyncio.gather(*asking)
        for end in ends:
            assert isinstance(end, EngineFailure)
            assert "was killed by SIGKILL while it was answering" in end.message
        assert await asyncio.wait_for(waiting, 30) == expected, "what waited is answered by the new engine"
        assert backend.stats().restarts == 1
        assert backend.stats().failed == 4


async def test_killed_in_prefill(starter_gguf: Path) -> None:
    async with running(starter_gguf, batch=64, ubatch=64) as backend:
        stream = await backend.submit(ask(LONG, 4, progress=True))
        await anext(stream)
        os.kill(pid_of(backend), signal.SIGKILL)
        found: list[int] = []
        with pytest.raises(EngineFailure, match="SIGKILL"):
            await drain(stream, found)
        assert found == []
        assert len(await eventually_ids(backend, ask(FRANCE, 4))) == 4


async def test_killed_while_loading(starter_gguf: Path) -> None:
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=512, threads=1))
    starting = asyncio.create_task(backend.start())
    before = set(children(os.getpid()))
    await until(lambda: bool(set(children(os.getpid())) - before))
    (child,) = set(children(os.getpid())) - before
    os.kill(child, signal.SIGKILL)
    with pytest.raises(EngineFailure, match=r"could not load .*was killed by SIGKILL"):
        await starting
    await backend.stop()
    assert gone_soon(child)


async def test_a_hung_child_is_noticed_killed_and_replaced(starter_gguf: Path) -> None:
    async with running(starter_gguf, silence=1.0) as backend:
        child = pid_of(backend)
        stream = await backend.submit(ask(FRANCE, 900))
        await anext(stream)
        os.kill(child, signal.SIGSTOP)
        async with asyncio.timeout(20):
            with pytest.raises(EngineFailure, match="left health checks unanswered for 1 seconds"):
                await drain(stream, [])
        assert len(await eventually_ids(backend, ask(FRANCE, 4))) == 4
        assert not alive(child)
        assert pid_of(backend) != child


async def test_a_long_batch_is_no_hang(starter_gguf: Path) -> None:
    async with running(starter_gguf, silence=0.8, stall=30.0) as backend:
        assert len(ids_of(await chunks_of(backend, ask(LONG[:300], 4)))) == 4
        assert backend.stats().restarts == 0


async def test_a_socket_that_vanishes_is_noticed(starter_gguf: Path) -> None:
    async with running(starter_gguf, silence=0.8) as backend:
        client = backend._client
        assert client is not None
        Path(client._endpoint.socket).unlink()
        with pytest.raises((EngineFailure, Unavailable)):
            await chunks_of(backend, ask(FRANCE, 4))
        await until(lambda: backend.stats().restarts == 1)
        assert len(await eventually_ids(backend, ask(FRANCE, 4))) == 4


async def test_a_model_that_vanishes_is_told_and_given_up(starter_gguf: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    shutil.copyfile(starter_gguf, model)
    async with running(model) as backend:
        model.unlink()
        os.kill(pid_of(backend), signal.SIGKILL)
        await until(lambda: backend.health().status == "failed")
        assert "3 times within 60 seconds" in backend.health().detail
        assert "could not load 'm.gguf'" in backend.health().detail
        assert "No such file" in backend.health().detail
        with pytest.raises(Unavailable, match="No such file"):
            await backend.submit(ask(FRANCE))
        assert any("m.gguf" in line for line in backend.log_tail())


async def test_a_model_that_is_cut_short_is_told(starter_gguf: Path, tmp_path: Path) -> None:
    model = tmp_path / "cut.gguf"
    model.write_bytes(starter_gguf.read_bytes()[:50_000_000])
    backend = LlamaCppBackend(LlamaCppOptions(model=str(model), lanes=1, context=512, threads=1))
    with pytest.raises(EngineFailure, match=r"could not load 'cut\.gguf': .*not within the file bounds"):
        await backend.start()
    await backend.stop()


async def test_no_place_for_a_socket(starter_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf)), policy=QUICK)
    with pytest.raises(EngineFailure, match="no place for the engine to listen"):
        await backend.start()
    await backend.stop()


async def test_no_interpreter_to_start(starter_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf)), policy=QUICK)
    with pytest.raises(EngineFailure, match="cannot be started: No such file"):
        await backend.start()
    await backend.stop()


async def test_an_argument_that_the_library_cannot_read(starter_gguf: Path) -> None:
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), engine_args=("-ctk q9_9",)))
    with pytest.raises(EngineFailure, match=r"cache_type_k cannot be GGML_TYPE_Q9_9 .*no 'GGML_TYPE_Q9_9'"):
        await backend.start()
    await backend.stop()


@pytest.fixture
def standin(tmp_path: Path) -> Path:
    path = tmp_path / "llama-server"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{llama_standin.__file__}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.slow
async def test_a_binary_takes_the_same_settings_and_hangs_the_same(starter_gguf: Path, standin: Path) -> None:
    settings = {"kv_bits": 8, "drafter": "ngram-mod", "draft_max": 8, "lanes": 2}
    async with running(starter_gguf, llama_server=str(standin), silence=1.0, **settings) as backend:
        assert (backend.context_length, backend.capabilities.lanes) == (1024, 2)
        answer = ids_of(await chunks_of(backend, ask(FRANCE, 8)))
        (server,) = children(pid_of(backend))
        stream = await backend.submit(ask(FRANCE, 900))
        await anext(stream)
        os.kill(server, signal.SIGSTOP)
        async with asyncio.timeout(20):
            with pytest.raises(EngineFailure, match="unanswered"):
                await drain(stream, [])
        assert await eventually_ids(backend, ask(FRANCE, 8)) == answer
        assert not alive(server), "what the guard had started is gone, too"
    async with running(starter_gguf, **settings) as backend:
        assert ids_of(await chunks_of(backend, ask(FRANCE, 8))) == answer
