"""Large pages under weights change where they lie, never what they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
import numpy as np

from dragoman.engines.mlx.pages import on_large_pages, settle_allocator

pytestmark = [pytest.mark.mlx, pytest.mark.skipif(sys.platform != "linux", reason="other systems have other pages")]

MIB = 1 << 20


def test_what_lies_on_large_pages_stays() -> None:
    kinds = (mx.float32, mx.bfloat16, mx.uint32)
    arrays = [mx.full((1024, 1024), number).astype(kinds[number % 3]) for number in range(9)]
    views = [mx.zeros((2048, 1024))[::2], mx.arange(MIB).reshape(1024, 1024).T, mx.array(1.0)]
    mx.eval(arrays, views)
    agreed = on_large_pages([*arrays, *views])
    assert agreed >= sum(array.nbytes for array in arrays)
    assert all(mx.all(array == number).item() for number, array in enumerate(arrays))
    assert mx.array_equal(views[1], mx.arange(MIB).reshape(1024, 1024).T)


def test_the_kernel_gives_them() -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.is_file() or "[never]" in enabled.read_text():
        pytest.skip("the kernel gives nobody large pages")
    array = mx.zeros((20, MIB))  # larger than what the allocator keeps
    mx.eval(array)
    flags = [line for line in _smaps_of(array) if line.startswith("VmFlags")]
    assert not any(" hg" in line for line in flags)
    on_large_pages([array])
    assert any(" hg" in line for line in _smaps_of(array) if line.startswith("VmFlags"))


def test_small_arrays_are_not_worth_it() -> None:
    array = mx.zeros((1024,))
    mx.eval(array)
    assert on_large_pages([array]) == 0
    assert on_large_pages([]) == 0


def test_the_allocator_takes_its_settings() -> None:
    assert settle_allocator() is True


def _smaps_of(array: mx.array) -> list[str]:
    """What the kernel says about the mapping in whose middle the array lies."""
    place = np.asarray(array).ctypes.data + array.nbytes // 2
    lines: list[str] = []
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split(" ", 1)[0]
        if "-" in head and ":" not in head:
            start, stop = (int(part, 16) for part in head.split("-"))
            inside = start <= place < stop
        if inside:
            lines.append(line)
    return lines
