"""Saving, restoring and erasing what a row holds. Knows files by their paths and the engine thread by its commands."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from dragoman.backend.local.room import Command, Do
from dragoman.backend.local.rows import RowView
from dragoman.core.errors import DragomanError, EngineFailure, NotSupported
from dragoman.core.slots import SlotActed, SlotAction
from dragoman.scheduler.scheduler import Scheduler
from dragoman.scheduler.states import RowStates

Result = TypeVar("Result")


class RowActs:
    """For one engine. `send` gives its thread a command; `caching` tells whether states are kept at all."""

    def __init__(self, rows: RowView, send: Callable[[Command], None], *, caching: bool) -> None:
        self._rows = rows
        self._send = send
        self._caching = caching
        self._pending: set[asyncio.Future[None]] = set()
        self._changed = asyncio.Event()

    async def act(self, action: SlotAction, lanes: int, file: Path | None) -> SlotActed:
        """Wait for the row and do it. What is erased is forgotten by name; the prefix cache may keep it for prompts
        that begin alike. Raises InvalidRequest for a file that cannot be restored, NotSupported where states cannot be
        written, EngineFailure when the engine goes meanwhile."""
        row = action.number % lanes
        while self._rows.busy(row):
            await self._change()
        if action.verb == "erase":
            return SlotActed(action=action, tokens=self._rows.forget(row))
        if file is None:
            raise NotSupported("There is no folder for saved slots.")
        if not self._caching:
            raise NotSupported(
                "Saved slots go through the prompt cache, which is off.", remedy="See --prompt-cache-bytes."
            )
        began = time.perf_counter()
        tokens, nbytes = await (self._save if action.verb == "save" else self._restore)(row, file)
        return SlotActed(action=action, tokens=tokens, nbytes=nbytes, ms=(time.perf_counter() - began) * 1000)

    def changed(self) -> None:
        """A request has ended."""
        self._changed.set()

    def fail(self) -> None:
        """The engine is gone: nobody is to wait for it."""
        for future in self._pending:
            if not future.done():
                future.set_exception(EngineFailure("The engine is gone."))
        self._changed.set()

    async def _save(self, row: int, file: Path) -> tuple[int, int]:
        namespace, tokens = self._rows.held(row)
        if not tokens:
            return 0, 0
        while True:
            written = await self._do(lambda states: states.write(namespace, tokens, file))
            if written is not None:
                return len(tokens), written
            await self._change()

    async def _restore(self, row: int, file: Path) -> tuple[int, int]:
        read = await self._do(lambda states: states.read(file))
        self._rows.restore(row, read.namespace, read.tokens)
        return len(read.tokens), read.nbytes

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _do(self, work: Callable[[RowStates], Result]) -> Result:
        """Call `work` on the engine thread."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        results: list[Result] = []

        def run(scheduler: Scheduler) -> None:
            fault: DragomanError | None = None
            try:
                results.append(work(scheduler.states()))
            except DragomanError as error:
                fault = error
            except Exception as error:
                fault = EngineFailure(f"The engine could not do this: {type(error).__name__}: {error}.")
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(partial(_settle, done, fault))

        self._pending.add(done)
        try:
            self._send(Do(run))
            await done
        finally:
            self._pending.discard(done)
        return results[0]


def _settle(done: asyncio.Future[None], fault: DragomanError | None) -> None:
    if done.done():
        return
    if fault is None:
        done.set_result(None)
    else:
        done.set_exception(fault)
