"""What doctor says of MLX's BLAS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.app.blas.choice import BlasChoice, Process
from dragoman.app.blas.trial import Trial
from dragoman.cli import doctor
from dragoman.core.errors import EngineFailure

REFERENCE = Path("mlx_cpu.libs/libblas.so.3")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A Linux machine with the mlx-cpu wheel, as the test describes it further."""
    facts: dict[str, Any] = {"process": Process(system="Linux", reference=REFERENCE)}

    def find(choice: str, threads: int) -> BlasChoice:
        if isinstance(facts["found"], Exception):
            raise facts["found"]
        return facts["found"]

    monkeypatch.setattr(doctor, "this_process", lambda: facts["process"])
    monkeypatch.setattr(doctor, "try_out", lambda path, threads: Trial(rate=1.5 if path == REFERENCE else 0.0))
    monkeypatch.setattr(doctor, "find_blas", find)
    return facts


def test_a_fast_one(machine: dict[str, Any]) -> None:
    machine["found"] = BlasChoice(path=Path("/lib/x.so"), kind="OpenBLAS 1", rate=90.0, reason="found there")
    assert doctor.blas_lines("auto") == [
        "blas of mlx: OpenBLAS 1, found there (/lib/x.so), 90 GFLOP/s, 60 times the reference BLAS it came with"
    ]


def test_none_says_how_to_get_one(machine: dict[str, Any]) -> None:
    machine["found"] = BlasChoice(reason="no other was found")
    own, remedy = doctor.blas_lines("auto")
    assert own == "blas of mlx: its own, the reference BLAS, 1.5 GFLOP/s; no other was found"
    assert "pip install" in remedy
    assert "libopenblas0" in remedy


def test_off_and_elsewhere(machine: dict[str, Any]) -> None:
    machine["found"] = AssertionError("nothing is to be looked for")
    assert doctor.blas_lines("off") == ["blas of mlx: its own, the reference BLAS, 1.5 GFLOP/s; --mlx-blas is off"]
    machine["process"] = Process(system="Darwin")
    assert doctor.blas_lines("auto") == []
    machine["process"] = Process(system="Linux", reference=REFERENCE, shared=Path("/lib/libopenblas.so.0"))
    assert doctor.blas_lines("auto") == ["blas of mlx: /lib/libopenblas.so.0; it was loaded beforehand"]


def test_a_bad_path_does_not_end_the_report(machine: dict[str, Any]) -> None:
    machine["found"] = EngineFailure("The BLAS 'x' cannot be used.", remedy="Leave it out.")
    assert doctor.blas_lines("x") == ["blas of mlx: The BLAS 'x' cannot be used. Leave it out."]
