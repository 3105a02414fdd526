"""One engine process: started, listened to, stopped. Knows neither what it serves nor how to talk to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence

from dragoman.backend.llamacpp.logtail import LogTail

_LONGEST_LINE = 1 << 20


class EngineProcess:
    """A running child. Its standard input is held open: children end themselves when it closes. What it writes to
    standard error (and to standard output after `first_line`) goes to `log`."""

    def __init__(self, process: Process, log: LogTail) -> None:
        self._process = process
        self._pumps = [asyncio.create_task(_pump(process.stderr, log))]
        self._log = log

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str],
        log: LogTail,
        *,
        first_input: bytes = b"",
        extra_env: Mapping[str, str] | None = None,
    ) -> EngineProcess:
        """Start `command` away from our terminal, so that Ctrl-C reaches us alone. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**os.environ, **(extra_env or {})},
            limit=_LONGEST_LINE,
            start_new_session=sys.platform != "win32",
        )
        if first_input and process.stdin is not None:
            process.stdin.write(first_input)
            with contextlib.suppress(ConnectionError):
                await process.stdin.drain()
        return cls(process, log)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.returncode is not None

    async def first_line(self) -> bytes:
        """The first line of standard output, b'' when the process ends without one. Call once."""
        assert self._process.stdout is not None  # noqa: S101 - it was started with a pipe
        try:
            return (await self._process.stdout.readline()).strip()
        finally:
            self.log_output()

    def log_output(self) -> None:
        """Send standard output to the log from now on."""
        self._pumps.append(asyncio.create_task(_pump(self._process.stdout, self._log)))

    async def wait(self) -> int:
        """Wait for the end. Returns the exit status, negative for a signal."""
        status = await self._process.wait()
        # The last words are in the pipes; grandchildren may hold these open, so do not wait for ever.
        await asyncio.wait(self._pumps, timeout=1.0)
        return status

    def ending(self) -> str:
        """How it ended, as a predicate: 'was killed by SIGKILL'."""
        status = self._process.returncode
        if status is None:
            return "is still running"
        if status < 0:
            try:
                return f"was killed by {signal.Signals(-status).name}"
            except ValueError:
                return f"was killed by signal {-status}"
        return f"ended with status {status}"

    async def stop(self, grace: float = 5.0) -> None:
        """Ask it to end, make it end after `grace` seconds. Safe to call twice, and after the end."""
        if not self.ended:
            self._signal(self._process.terminate)
            try:
                async with asyncio.timeout(grace):
                    await self._process.wait()
            except TimeoutError:
                self._signal(self._kill)
                await self._process.wait()
        await self._close()

    async def _close(self) -> None:
        await asyncio.wait(self._pumps, timeout=1.0)
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.wait_closed()

    def _kill(self) -> None:
        """It and what it started: it leads a process group of its own."""
        if os.name == "posix":
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()

    @staticmethod
    def _signal(send: Callable[[], None]) -> None:
        with contextlib.suppress(ProcessLookupError):
            send()


async def _pump(stream: asyncio.StreamReader | None, log: LogTail) -> None:
    while stream is not None:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit; the reader has dropped it
            continue
        if not line:
            return
        log.add(line)
