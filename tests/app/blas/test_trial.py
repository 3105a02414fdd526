"""Trials find what is wrong with a library, and survive it."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.app.blas import trial
from dragoman.app.blas.library import BlasLibrary
from dragoman.app.blas.search import candidates
from dragoman.app.blas.trial import Trial, multiplies_right, try_out

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

TRANSPOSED = 112


def sgemm(*arguments: Any) -> None:
    """cblas_sgemm for row-major matrices and an a that is not transposed, by the book."""
    _, _, trans_b, m, n, k, _, a, lda, b, ldb, _, c, ldc = arguments
    a, b, c = (ctypes.cast(address, ctypes.POINTER(ctypes.c_float)) for address in (a, b, c))
    for i in range(m):
        for j in range(n):
            column = (b[j * ldb + x] if trans_b == TRANSPOSED else b[x * ldb + j] for x in range(k))
            c[i * ldc + j] = sum(a[i * lda + x] * value for x, value in enumerate(column))


def exported(function: Callable[..., None], integer: Any) -> Any:
    pointer, real, code = ctypes.c_void_p, ctypes.c_float, ctypes.c_int
    kinds = (*[code] * 3, *[integer] * 3, real, pointer, integer, pointer, integer, real, pointer, integer)
    address = ctypes.CFUNCTYPE(None, *kinds)(function)
    untyped = ctypes.CFUNCTYPE(None)(ctypes.cast(address, pointer).value or 0)
    untyped.keep = address  # type: ignore[attr-defined]
    return untyped


def test_right() -> None:
    assert multiplies_right(exported(sgemm, ctypes.c_int))


def test_wrong() -> None:
    def forgetful(*arguments: Any) -> None:
        sgemm(*arguments[:5], arguments[5] - 1, *arguments[6:])

    assert not multiplies_right(exported(lambda *_: None, ctypes.c_int))
    assert not multiplies_right(exported(forgetful, ctypes.c_int))


def test_wide_integers_under_the_standard_name_are_found_out() -> None:
    sizes: list[int] = []

    def wide(*arguments: Any) -> None:
        sizes.extend(arguments[3:6])

    assert not multiplies_right(exported(wide, ctypes.c_int64))
    assert min(sizes) > 2**32


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("import os; os.kill(os.getpid(), 4)", "it crashed on this machine (signal 4)"),
        ("raise SystemExit(3)", "it could not be tried out (exit status 3)"),
        ("print('{}x')", "it could not be tried out (exit status 0)"),
        ("import time; time.sleep(60)", "it could not be tried out (TimeoutExpired)"),
    ],
)
def test_what_kills_a_trial(monkeypatch: pytest.MonkeyPatch, program: str, fault: str) -> None:
    monkeypatch.setattr(trial, "_PROGRAM", program)
    monkeypatch.setattr(trial, "_TIMEOUT", 0.5 if "sleep" in program else 60.0)
    assert try_out(Path("any.so"), 1) == Trial(fault=fault)


def test_a_library_without_sgemm() -> None:
    name = ctypes.util.find_library("m")
    if name is None:
        pytest.skip("no libm")
    assert try_out(Path(name), 1).fault == f"it cannot be loaded ({name} exports no cblas_sgemm)"


def test_a_real_one() -> None:
    candidate = next(candidates(), None)
    if candidate is None:
        pytest.skip("no fast BLAS here")
    result = try_out(candidate.path, 1)
    assert result.fault == ""
    assert result.rate > 0
    assert result.title == BlasLibrary(candidate.path).title != candidate.path.name


def test_threads_are_the_users_where_he_has_said() -> None:
    candidate = next((one for one in candidates() if "openblas" in one.path.name), None)
    if candidate is None:
        pytest.skip("no OpenBLAS here")
    library = BlasLibrary(candidate.path)
    count = ctypes.CDLL(str(candidate.path))["openblas_get_num_threads"]
    before = count()
    library.set_threads(before + 1, {"OPENBLAS_NUM_THREADS": "7"})
    assert count() == before
    library.set_threads(1, {})
    assert count() == 1
    library.set_threads(before, {})
