"""How the weights of a model on a Linux CPU lie in memory. Knows no model and no request.

A decode step reads every weight once. With pages of 4 KiB a good part of that time goes into looking up addresses; the
kernel gives larger ones to programs that ask (madvise(2), MADV_HUGEPAGE), where its administrator lets them
(/sys/kernel/mm/transparent_hugepage/enabled). Whatever is refused leaves things as they were.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

import mlx.core as mx
import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PAGE = 2 << 20
_SMALLEST = _PAGE // 8
"""Bytes. Weights lie side by side, so that even one smaller than a page is worth asking for."""
_AT_ONCE = 2 << 30
"""Bytes moved to large pages before the model answers, some 1 GiB a second; the kernel moves the rest when idle."""

_HUGEPAGE, _COLLAPSE = 14, 25
"""Advices of madvise(2); the second is known from Linux 6.1 on."""

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3
_ALLOCATOR = {_MMAP: 64 << 20, _TRIM: 512 << 20, _TOP_PAD: 16 << 20}
"""Parameters of mallopt(3), in bytes: blocks below the first lie side by side, and what is freed is kept up to the
second, so that the buffers of a step are not asked of the kernel again and again."""


def settle_allocator() -> bool:
    """Set up the C library's allocator for large blocks that come and go, for the whole process. False where it has no
    such parameters. To be called before weights are loaded."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    taken = [library.mallopt(parameter, value) for parameter, value in _ALLOCATOR.items()]
    return all(taken)


def on_large_pages(arrays: Iterable[mx.array]) -> int:
    """Ask for large pages under evaluated arrays; their values stay. Gives the bytes the kernel agreed to."""
    if sys.platform != "linux":
        return 0
    library = ctypes.CDLL(None, use_errno=True)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def advised(start: int, size: int, advice: int) -> bool:
        # The ends of a range may belong to nobody (ENOMEM); what lies between them is advised all the same.
        return library.madvise(start, size, advice) == 0 or ctypes.get_errno() == errno.ENOMEM

    agreed = moved = 0
    for start, stop in _ranges(arrays):
        size = stop - start
        if not advised(start, size, _HUGEPAGE):
            continue
        agreed += size
        if moved + size <= _AT_ONCE and advised(start, size, _COLLAPSE):
            moved += size
    return agreed


def _ranges(arrays: Iterable[mx.array]) -> Iterator[tuple[int, int]]:
    """The whole large pages the arrays touch, each once."""
    reached = 0
    large = (memoryview(cast("Buffer", array)) for array in arrays if array.nbytes >= _SMALLEST)
    for start, size in sorted((_address(view), view.nbytes) for view in large if view.c_contiguous):
        first = max(start // _PAGE * _PAGE, reached)
        reached = max(-(-(start + size) // _PAGE) * _PAGE, reached)
        if first < reached:
            yield first, reached


def _address(view: memoryview) -> int:
    """Of its first byte."""
    return int(np.frombuffer(view.cast("B"), dtype=np.uint8).ctypes.data)
