"""Keeps the batches of this server going, and takes up those of servers that died. Knows no wire."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from dragoman.core.batches import BatchFault, BatchRecord
from dragoman.core.errors import DragomanError
from dragoman.jobs.batch import BatchJob, BatchRules, RowCall, end_batch
from dragoman.jobs.lanes import IdleLanes, Load
from dragoman.stores.stores import Stores

_KEEP_SECONDS = 60.0
_RELIEVE_SECONDS = 0.25
_PAUSES = (1.0, 60.0)
_RESTARTED = BatchFault(
    "server_restarted",
    "The server was restarted while it worked on this batch; requests finished before are in the output file.",
)
_log = logging.getLogger(__name__)


class RunnerRules(Struct, frozen=True, kw_only=True):
    """`restart`: whether batches that a dead server left are resumed or failed."""

    restart: Literal["resume", "fail"] = "resume"
    batch: BatchRules = BatchRules()


class BatchRunner:
    """Started once, stopped once. `call` runs one row, `load` tells how busy the engine is, `serves` whether
    this server has a model."""

    def __init__(
        self,
        stores: Stores,
        call: RowCall,
        load: Callable[[], Load],
        serves: Callable[[str], bool],
        rules: RunnerRules = RunnerRules(),  # noqa: B008
    ) -> None:
        self._stores = stores
        self._call = call
        self._serves = serves
        self._rules = rules
        self._lanes = IdleLanes(load)
        self._jobs: dict[str, tuple[BatchJob, asyncio.Task[None]]] = {}
        self._keepers: list[asyncio.Task[None]] = []

    @property
    def running(self) -> int:
        """Batches being worked on here."""
        return len(self._jobs)

    @property
    def max_rows(self) -> int:
        """How many rows a batch may have."""
        return self._rules.batch.max_rows

    async def start(self) -> None:
        """Take up what a dead server left and clear away what has expired. Raises StorageFailure."""
        await self._keep()
        self._keepers = [asyncio.create_task(self._keep_going()), asyncio.create_task(self._relieve())]

    async def stop(self) -> None:
        """Break everything off; it is taken up again after the next start."""
        tasks = [*self._keepers, *(task for _, task in self._jobs.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keepers.clear()
        self._jobs.clear()

    def begin(self, id: str) -> None:
        """Work on a batch that is stored, unless that is done already."""
        if id in self._jobs:
            return
        job = BatchJob(id, self._stores, self._call, self._lanes, self._rules.batch)
        task = asyncio.create_task(self._run(job))
        self._jobs[id] = (job, task)
        task.add_done_callback(lambda _: self._jobs.pop(id, None))

    async def cancel(self, id: str) -> BatchRecord | None:
        """Have the batch end early; the batch as it is then. Does nothing to one that has ended or is about to. Raises
        StorageFailure."""
        record = await self._stores.batches.advance(
            id, "cancelling", unless=("finalizing", "cancelling", "completed", "failed", "expired", "cancelled")
        )
        if id in self._jobs:
            self._jobs[id][0].changed.set()
        elif record is not None and record.status == "cancelling":
            await self._adopt(record)
        return record

    async def _run(self, job: BatchJob) -> None:
        pause = _PAUSES[0]
        while True:
            try:
                return await job.run()
            except DragomanError as error:
                _log.warning("batch %s waits for %g s: %s", job.id, pause, error)
            except Exception:
                _log.exception("batch %s has failed", job.id)
                return await self._give_up(job.id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])

    async def _give_up(self, id: str) -> None:
        fault = BatchFault("internal_error", "The server failed while it worked on this batch.")
        await self._fail(id, fault)

    async def _fail(self, id: str, fault: BatchFault) -> None:
        with contextlib.suppress(DragomanError):  # the next keeper's round finds it again
            await self._stores.batches.finish_rest(id, "cancelled", fault.code, fault.message)
            await end_batch(self._stores, id, fault)

    async def _keep_going(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_SECONDS)
            try:
                await self._keep()
            except DragomanError as error:
                _log.warning("the stores could not be kept: %s", error)

    async def _keep(self) -> None:
        await self._stores.sweep()
        for record in await self._stores.batches.unfinished():
            await self._adopt(record)

    async def _relieve(self) -> None:
        while True:
            await asyncio.sleep(_RELIEVE_SECONDS)
            self._lanes.relieve()

    async def _adopt(self, record: BatchRecord) -> None:
        """Take up a batch that nobody works on, if it is one for this server."""
        me, old = self._stores.instance, record.owner
        if record.id in self._jobs or (old != me.id and await asyncio.to_thread(me.alive, old)):
            return
        over = record.status == "cancelling" or self._stores.clock() >= record.expires
        if not over and not self._serves(record.model):
            return
        if old != me.id and not await self._stores.batches.adopt(record.id, old, me.id):
            return
        if old != me.id and not over and self._rules.restart == "fail":
            _log.warning("batch %s was cut off by a restart and fails", record.id)
            await self._fail(record.id, _RESTARTED)
            return
        done = record.total - record.processing
        _log.info("batch %s is taken up again: %d of %d rows are done", record.id, done, record.total)
        self.begin(record.id)
