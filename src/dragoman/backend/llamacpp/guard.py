"""Runs another program and ends it when our own parent ends, so that a foreign binary is never orphaned.

Run as `python -m dragoman.backend.llamacpp.guard PROGRAM ARGUMENT…`; standard input must stay open for as long as the
parent lives. Passes SIGTERM on and exits with the program's status. Knows nothing of the program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from types import FrameType
from typing import NoReturn

from dragoman.backend.llamacpp.parent import AT_ONCE, TIDILY, die_with_parent, watch_input

_NOT_FOUND = 127
_NOT_RUNNABLE = 126


def main() -> NoReturn:
    """Exit status: the program's; 128 + n when signal n ended it; 126 or 127 when it cannot be started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(TIDILY)
    # This process has one thread until the program is started, so running code between fork and exec is safe.
    before = partial(die_with_parent, AT_ONCE, os.getpid()) if os.name == "posix" else None
    try:
        program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=before)  # noqa: S603
    except OSError as error:
        print(f"cannot run {sys.argv[1]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUNNABLE)

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        program.terminate()

    signal.signal(signal.SIGTERM, pass_on)
    watch_input(program.kill)
    status = program.wait()
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
