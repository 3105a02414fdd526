"""Lets llama.cpp's threads sleep at barriers while other programs want the processors, and spin as long as none does.

llama.cpp's threads meet at hundreds of barriers per token. libgomp spins there for milliseconds, which is fastest on
processors that are free and ruinous where they are not: a thread that spins keeps the one it waits for from running.
libgomp spins for a moment only while it manages more threads than there are processors. So such threads are made when
others crowd us, asleep, and ended afterwards. That others do is seen from how long our threads wait to run
(proc_pid_schedstat(5)). Runs in the engine's process; does nothing where the kernel or the library is another.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_SECONDS = 0.25
_IDLE_SECONDS = 1.0
_IDLE_SHARE = 0.03
"""Processor time per second below which nothing is being computed."""
_CALM = 3
"""So many looks in a row must find nobody else before threads spin again."""
_RESCAN = 16
"""Looks after which all threads are counted again; in between only those that work."""
_OWN_WISH = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_TASKS = Path("/proc/self/task")
_CROWDED = "other programs want the processors: while they do, the engine's threads sleep at barriers"
_FREE = "the processors are free: the engine's threads spin at barriers again"


class Crowding:
    """Whether others want the processors that `threads` of ours compute on. One busy program beside them makes each
    wait for about 1/(threads + 1) of its time; half of that counts."""

    def __init__(self, threads: int) -> None:
        self._limit = 1 / (2 * (threads + 1))
        self._calm = 0
        self.crowded = False

    def look(self, ran: float, waited: float) -> bool:
        """After a while in which our threads ran and waited to run for so long, in any unit; the new `crowded`."""
        if waited > self._limit * (ran + waited):
            self._calm, self.crowded = 0, True
        elif self.crowded:
            self._calm += 1
            self.crowded = self._calm < _CALM
        return self.crowded


class Ballast:
    """More threads than processors, asleep. `library` is libgomp as this process has it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._parallel = library.GOMP_parallel
        self._parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        self._parallel.restype = None
        self._nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # free(NULL) does nothing
        self._over: threading.Event | None = None

    def set(self, held: bool) -> None:
        """Make them, or end them."""
        if held and self._over is None:
            self._over = threading.Event()
            threading.Thread(target=self._hold, args=(self._over,), name="ballast", daemon=True).start()
        elif not held and self._over is not None:
            self._over.set()
            self._over = None

    def _hold(self, over: threading.Event) -> None:
        # The threads belong to this one: they sleep until it ends, and then end as well.
        self._parallel(self._nothing, None, (os.cpu_count() or 1) + 1, 0)
        over.wait()


def watch_crowding(threads: int, say: Callable[[str], None]) -> bool:
    """Watch from a thread of its own from now on, for an engine that computes with so many threads. False where that
    is of no use, or where the environment says how long to wait."""
    if threads < 2 or not sys.platform.startswith("linux") or any(name in os.environ for name in _OWN_WISH):
        return False
    library = _libgomp()
    if library is None or not (_TASKS / str(threading.get_native_id()) / "schedstat").exists():
        return False
    arguments = (Crowding(threads), Ballast(library), say)
    threading.Thread(target=_watch, args=arguments, name="crowding", daemon=True).start()
    return True


def _libgomp() -> ctypes.CDLL | None:
    """The one that is loaded already."""
    found = re.search(r"\s(/\S*libgomp[^/\s]*\.so\S*)", Path("/proc/self/maps").read_text("utf-8", "replace"))
    return ctypes.CDLL(found[1], mode=os.RTLD_NOW | os.RTLD_NOLOAD) if found else None


def _watch(crowding: Crowding, ballast: Ballast, say: Callable[[str], None]) -> None:
    times = _Times()
    lines = [_FREE, _CROWDED]
    used, pause = time.process_time(), _SECONDS
    while True:
        time.sleep(pause)
        before, used = used, time.process_time()
        if used - before < _IDLE_SHARE * pause:
            pause = _IDLE_SECONDS
            times.forget()
            continue
        pause = _SECONDS
        passed = times.passed()
        if passed is None:
            continue
        before_this, crowded = crowding.crowded, crowding.look(*passed)
        ballast.set(crowded)
        if crowded != before_this and lines:
            say(lines.pop())  # of the first time only


class _Times:
    """How long the threads of this process that work have run and waited to run."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self._looks = 0

    def forget(self) -> None:
        """The next look is the first of a row."""
        self._last.clear()

    def passed(self) -> tuple[int, int] | None:
        """Nanoseconds they ran and waited since the last look; None at the first."""
        self._looks += 1
        known = self._last
        names = os.listdir(_TASKS) if not known or self._looks % _RESCAN == 0 else list(known)
        now = {name: read for name in names if (read := _schedstat(name)) is not None}
        steps = {name: (now[name][0] - known[name][0], now[name][1] - known[name][1]) for name in now if name in known}
        ran, waited = (sum(step[part] for step in steps.values()) for part in (0, 1))
        # Whoever neither ran nor waited for a twentieth of all that is left out until the next count.
        self._last = {name: now[name] for name in now if name not in steps or sum(steps[name]) * 20 >= ran + waited}
        return (ran, waited) if known else None


def _schedstat(task: str) -> tuple[int, int] | None:
    try:
        ran, waited, _ = (_TASKS / task / "schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return int(ran), int(waited)
