"""Threads that sleep at barriers while other programs want the processors."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.crowding import Ballast, Crowding, watch_crowding
from dragoman.backend.llamacpp.threads import affinity_cores
from tests.backend.llamacpp.rig import ask, chunks_of

TASKS = Path("/proc/self/task")


@pytest.mark.parametrize(
    ("threads", "ran", "waited", "wanted"),
    [
        (2, 100, 0, False),
        (2, 93, 7, False),  # eight streams on two idle cores, their client and server beside them
        (2, 50, 45, True),  # one busy program
        (2, 62, 38, True),  # two, while our threads sleep
        (8, 89, 11, True),
        (8, 97, 3, False),
        (4, 0, 0, False),
    ],
)
def test_waiting_tells_of_others(threads: int, ran: int, waited: int, wanted: bool) -> None:
    crowding = Crowding(threads)
    assert crowding.look(ran, waited) is wanted
    assert crowding.crowded is wanted


def test_it_takes_three_calm_looks_to_be_alone_again() -> None:
    crowding = Crowding(2)
    looks = [(50, 50), (99, 1), (99, 1), (50, 50), (99, 1), (99, 1), (99, 1), (99, 1)]
    assert [crowding.look(*look) for look in looks] == [True] * 6 + [False] * 2


@pytest.mark.skipif(not TASKS.exists(), reason="needs Linux's /proc")
def test_ballast_is_more_threads_than_processors_for_as_long_as_it_is_held() -> None:
    try:
        library = ctypes.CDLL("libgomp.so.1")
    except OSError:
        pytest.skip("no libgomp")
    before = set(os.listdir(TASKS))
    ballast = Ballast(library)
    for _ in range(2):
        ballast.set(True)
        ballast.set(True)
        eventually(lambda: len(set(os.listdir(TASKS)) - before) == (os.cpu_count() or 1) + 1)
        made = set(os.listdir(TASKS)) - before
        ballast.set(False)
        ballast.set(False)
        eventually(lambda made=made: made.isdisjoint(os.listdir(TASKS)))


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until, os.listdir(TASKS)
        time.sleep(0.01)


def test_who_has_said_how_to_wait_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not watch_crowding(1, print)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert not watch_crowding(2, print)


@contextlib.contextmanager
def busy_programs() -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


@pytest.mark.anyio
@pytest.mark.llamacpp
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel counts no waiting")
async def test_the_real_engine_notices_busy_programs_and_their_end(
    starter_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    if affinity_cores() < 2:
        pytest.skip("one core has no barriers")
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=512, threads=2))
    await backend.start()
    try:
        with busy_programs():
            await answers_until(backend, "other programs want the processors")
        await answers_until(backend, "the processors are free")
    finally:
        await backend.stop()


async def answers_until(backend: LlamaCppBackend, said: str) -> None:
    async with asyncio.timeout(120):
        while not any(said in line for line in backend.log_tail()):
            await chunks_of(backend, ask((504, 3575, 282, 4649, 314), 16))
