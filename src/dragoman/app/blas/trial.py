"""Tries a BLAS library out in a process of its own, which it may crash: does it multiply right, and how fast?

Libraries built for another processor die of an illegal instruction, those that take 64-bit integers under the standard
names read past their arguments. Neither may happen to a server. Knows no MLX.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.app.blas.library import BlasLibrary

_PROGRAM = "from dragoman.app.blas.trial import main; import sys; main(sys.argv[1:])"
_TIMEOUT = 60.0
_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
# Shapes (m, n, k) of one decoded token, of a short prompt, and one that is cut into blocks and split over threads.
_SHAPES = ((1, 48, 32), (5, 7, 9), (96, 40, 72))
# The speed is the best of many short products, for other processes may be using the cores.
_TIMED = 256
_TIMES = 40
_TIMING = 0.1

_Multiply = Callable[..., object]


class Trial(Struct, frozen=True):
    """`title` names the library; `rate` is its speed in float32 GFLOP/s on a small product; `fault` is empty when it
    passed."""

    title: str = ""
    rate: float = 0.0
    fault: str = ""


def try_out(path: Path, threads: int) -> Trial:
    """Load and run `path` in a process of its own. Never raises for what the library does."""
    command = [sys.executable or "", "-P", "-c", _PROGRAM, str(path), str(threads)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Trial(fault=f"it could not be tried out ({type(error).__name__})")
    if done.returncode < 0:
        return Trial(fault=f"it crashed on this machine (signal {-done.returncode})")
    try:
        return msgspec.json.decode(done.stdout, type=Trial)
    except msgspec.DecodeError:
        return Trial(fault=f"it could not be tried out (exit status {done.returncode})")


def run_trial(path: Path, threads: int) -> Trial:
    """Load and run `path` in this process, which it changes for good."""
    try:
        library = BlasLibrary(path)
        exported = library.share()
    except OSError as error:
        return Trial(fault=f"it cannot be loaded ({error})")
    library.set_threads(threads)
    multiply = exported.cblas_sgemm
    multiply.restype = None
    if not multiplies_right(multiply):
        return Trial(title=library.title, fault="it multiplies matrices wrongly")
    return Trial(title=library.title, rate=_rate(multiply))


def multiplies_right(multiply: _Multiply) -> bool:
    """Whether a `cblas_sgemm` gives the right products, in the forms that MLX asks for."""
    return all(_right(multiply, shape, transposed) for shape in _SHAPES for transposed in (False, True))


def _right(multiply: _Multiply, shape: tuple[int, int, int], transposed: bool) -> bool:
    """Whether one product is right. Small whole numbers: exact in float32, in any order of summation."""
    m, n, k = shape
    a = array("f", ((i * 7 + 3) % 11 - 5 for i in range(m * k)))
    b = array("f", ((i * 5 + 1) % 13 - 6 for i in range(k * n)))
    # As the standard has it, beta = 0 means that c is not read.
    c = array("f", [float("nan")]) * (m * n)
    _call(multiply, (m, n, k), a, b, c, transposed)
    step, stride = (1, k) if transposed else (n, 1)
    return all(
        c[i * n + j] == sum(a[i * k + x] * b[x * step + j * stride] for x in range(k))
        for i in range(m)
        for j in range(n)
    )


def _rate(multiply: _Multiply) -> float:
    size = _TIMED
    a, b, c = (array("f", [0.5]) * (size * size) for _ in range(3))
    begun, best = time.perf_counter(), float("inf")
    for _ in range(_TIMES):
        start = time.perf_counter()
        _call(multiply, (size, size, size), a, b, c, True)
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - begun > _TIMING:
            break
    return round(2e-9 * size**3 / best, 1)


def _call(
    multiply: _Multiply,
    shape: tuple[int, int, int],
    a: array[float],
    b: array[float],
    c: array[float],
    transposed: bool,
) -> None:
    """c = a b, or a bᵀ. Compilers leave rubbish in the upper half of a register or stack slot that holds an int; so
    does this call, to find out libraries that would read it."""
    _, n, k = shape
    multiply(
        *(_soiled(code) for code in (_ROW_MAJOR, _PLAIN, _TRANSPOSED if transposed else _PLAIN)),
        *(_soiled(size) for size in shape),
        ctypes.c_float(1.0),
        _address(a),
        _soiled(k),
        _address(b),
        _soiled(k if transposed else n),
        ctypes.c_float(0.0),
        _address(c),
        _soiled(n),
    )


def _soiled(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value | 0x5A5A_0000_0000)


def _address(numbers: array[float]) -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.buffer_info()[0])


def main(arguments: Sequence[str]) -> None:
    """Print the Trial of the library and the number of threads named in `arguments`, as JSON."""
    trial = run_trial(Path(arguments[0]), int(arguments[1]))
    sys.stdout.buffer.write(msgspec.json.encode(trial))
