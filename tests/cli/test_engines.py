"""What doctor says of llama.cpp engines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from dragoman.backend.llamacpp.journal import RunRecord
from dragoman.catalog.local import inspect_model
from dragoman.cli.doctor import plan_line
from dragoman.cli.engines import engine_lines
from dragoman.config import EngineSettings
from tests.catalog.models import write_gguf

_GONE = 2**22 + 12345


def written(folder: Path, log: str = "", **fields: Any) -> list[str]:
    record = RunRecord(**({"server": os.getpid(), "build": "llama.cpp b1", "lanes": 2, "context": 512} | fields))
    (folder / f"{record.server}.json").write_bytes(msgspec.json.encode(record))
    (folder / f"{record.server}.log").write_text(log)
    return engine_lines(folder)


def test_none(tmp_path: Path) -> None:
    assert engine_lines(tmp_path) == []


def test_a_running_one(tmp_path: Path) -> None:
    lines = written(tmp_path, "a\nb\n", pid=os.getpid(), threads=3, kv_bits=4, adapters=("x (1)",), restarts=2)
    assert lines[0].startswith(f"llama.cpp engine {os.getpid()} of server process {os.getpid()}, for ")
    assert lines[0].endswith(": llama.cpp b1")
    assert any(line.startswith("  threads 3") and line.endswith("restarts 2") for line in lines)
    assert "  slots 2 of 512 tokens" in lines
    assert "  key/value cache of 4 bits; adapters x (1)" in lines
    assert lines[-3:] == ["  last lines of its log:", "    a", "    b"]


def test_one_that_is_down_or_does_not_answer(tmp_path: Path) -> None:
    lines = written(tmp_path, detail="Its process was killed by SIGKILL.")
    assert lines[0].endswith("down. Its process was killed by SIGKILL.")
    assert lines[-1] == "  its log is empty: no warnings, no errors"
    lines = written(tmp_path, pid=os.getpid(), socket=str(tmp_path / "none.sock"))
    assert "  slots 2 of 512 tokens; it does not answer" in lines


def test_the_last_one_that_ran(tmp_path: Path) -> None:
    written(tmp_path, server=_GONE, detail="old")
    lines = written(tmp_path, server=_GONE + 1, pid=_GONE + 2, socket="x.sock")
    assert lines[0].startswith(f"last llama.cpp engine, of server process {_GONE + 1}, which has ended")
    assert len([line for line in lines if "engine" in line]) == 1


def test_one_elsewhere(tmp_path: Path) -> None:
    lines = written(tmp_path, model="http://host:1")
    assert lines[0].endswith("at http://host:1")


def test_what_a_model_would_take(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    model = inspect_model(tmp_path / "m.gguf")
    line = plan_line(model, EngineSettings(threads=3, max_lanes=2, ctx=128))
    assert line.startswith("on llama.cpp: 2 slots of 128 tokens, 3 threads")
    assert plan_line(model, EngineSettings(engine="mlx")) == ""
