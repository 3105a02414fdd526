"""The record of runs on disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.journal import Journal, RunRecord, read_runs, record_of, runs
from dragoman.backend.llamacpp.options import LlamaCppOptions
from tests.backend.llamacpp.rig import ask, chunks_of, serving

_GONE = 2**22 + 12345  # above Linux's and macOS's largest process id


def test_what_is_noted_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "engines")
    options = LlamaCppOptions(model="m.gguf", kv_bits=8, adapters=(Adapter("a", "a.gguf", 0.5),), drafter="ngram-mod")
    journal.note(record_of(options, None, build="b1", lanes=2, context=512))
    for number in range(3):
        journal.line(f"line {number}")
    ((record, lines),) = read_runs(tmp_path / "engines")
    assert (record.server, record.pid, record.build, record.lanes, record.context) == (os.getpid(), 0, "b1", 2, 512)
    assert (record.kv_bits, record.adapters, record.speculation) == (8, ("a (0.5)",), "ngram-mod")
    assert lines == ["line 0", "line 1", "line 2"]
    assert (tmp_path / "engines").stat().st_mode & 0o077 == 0 or os.name != "posix"


def test_the_log_stays_small(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(3000):
        journal.line(f"{number} {'x' * 990}")
    file = tmp_path / f"{os.getpid()}.log"
    assert file.stat().st_size <= 256 * 1024
    assert file.read_text().splitlines()[-1].startswith("2999 ")


def test_old_records_go_and_running_ones_stay(tmp_path: Path) -> None:
    running = os.getppid()
    for age, pid in enumerate([running, *(_GONE + number for number in range(8))]):
        (tmp_path / f"{pid}.json").write_bytes(msgspec.json.encode(RunRecord(server=pid)))
        (tmp_path / f"{pid}.log").touch()
        os.utime(tmp_path / f"{pid}.json", (age, age))
    (tmp_path / f"{os.getpid()}.json").write_text("left by another process of our number")
    Journal(tmp_path)
    kept = {int(path.stem) for path in tmp_path.glob("*.json")}
    assert running in kept
    assert os.getpid() not in kept
    assert kept - {running} == {_GONE + 7, _GONE + 6, _GONE + 5}
    assert {int(path.stem) for path in tmp_path.glob("*.log")} == kept


def test_what_cannot_be_read_or_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{")
    assert read_runs(tmp_path) == []
    assert read_runs(tmp_path / "none") == []
    (tmp_path / "file").touch()
    for journal in (Journal(tmp_path / "file" / "below"), Journal(None)):
        journal.note(RunRecord(server=1))
        journal.line("x")


def test_process_numbers() -> None:
    assert runs(os.getpid())
    assert not runs(_GONE)
    assert not runs(0)


@pytest.mark.anyio
async def test_a_backend_keeps_its_record(tmp_path: Path) -> None:
    async with serving(journal=tmp_path) as (backend, launcher):
        await chunks_of(backend, ask())
        ((up, _),) = read_runs(tmp_path)
        assert (up.pid, up.build, up.lanes, up.context, up.restarts) == (4242, "stub", 2, 2048, 0)
        launcher.broken = True
        await launcher.engine.crash()
        await _until_down(tmp_path)
        ((down, _),) = read_runs(tmp_path)
        assert "was killed by SIGKILL" in down.detail or "does not start" in down.detail
        assert down.pid == 0
    async with serving(journal=tmp_path) as (backend, launcher):
        await launcher.engine.crash()
        async with asyncio.timeout(5):
            while not backend.stats().restarts:
                await asyncio.sleep(0.01)
        ((again, _),) = read_runs(tmp_path)
        assert (again.pid, again.detail) == (4242, "")


async def _until_down(folder: Path) -> None:
    async with asyncio.timeout(5):
        while read_runs(folder)[0][0].pid:
            await asyncio.sleep(0.01)
