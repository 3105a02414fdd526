"""Ends this process when its parent ends, however that happens. Knows nothing of what the process does.

Two guards, because each has a gap: the kernel's parent-death signal exists on Linux only, and the end of standard
input can be noticed only while this interpreter gets to run (loading a model holds its lock).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1

AT_ONCE = 9
"""SIGKILL, which not every platform names."""
TIDILY = int(signal.SIGTERM)
"""A signal the process may handle."""


def die_with_parent(number: int, parent: int = 0) -> None:
    """Ask the kernel to send this process signal `number` when the parent thread that made it ends (prctl(2)).
    `parent` is the pid expected; if it is gone already, exits at once. Does nothing where there is no prctl."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def watch_input(at_end: Callable[[], None]) -> None:
    """Call `at_end` on a thread of its own once standard input ends: its other end is held open by the parent."""
    threading.Thread(target=_drain_input, args=(at_end,), name="parent-watch", daemon=True).start()


def _drain_input(at_end: Callable[[], None]) -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    at_end()
