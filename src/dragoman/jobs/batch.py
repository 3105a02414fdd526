"""One batch from its input to its files. It can be broken off at any moment and taken up again from what is stored."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Iterator
from typing import Protocol

from msgspec import Struct, structs

from dragoman.core.batches import BatchFault, BatchRecord, BatchRow, BatchStatus, NewRow, RowOutcome, RowUsage
from dragoman.core.files import FileRecord
from dragoman.jobs.input import BadInput, InputReader
from dragoman.jobs.lanes import IdleLanes
from dragoman.jobs.output import lines_of
from dragoman.jobs.usage import usage_of
from dragoman.stores.stores import Stores

_IN_FLIGHT = 32
_LOOK_SECONDS = 1.0
_AHEAD_ROWS = 32
_FAULTS_LISTED = 100
_RETRY_SECONDS = 120.0
_PAUSES = (0.05, 2.0)
_BUSY = (429, 503)
_ERROR_OUTCOMES: tuple[RowOutcome, ...] = ("failed", "invalid", "cancelled", "expired")
_log = logging.getLogger(__name__)


class RowReply(Struct, frozen=True):
    """What a row was answered: HTTP status, JSON body and the id of its request."""

    status: int
    body: bytes
    request_id: str


class RowCall(Protocol):
    """Runs one row as if a client had sent it."""

    def __call__(self, method: str, path: str, body: bytes) -> Awaitable[RowReply]:
        """Never raises a DragomanError: errors are answers. Cancelling it cancels the work."""
        ...


class BatchRules(Struct, frozen=True, kw_only=True):
    """`max_rows` in one batch; `max_line` bytes of one row."""

    max_rows: int = 50_000
    max_line: int = 64 * 1024 * 1024


class BatchJob:
    """Works on the batch `id` until it has ended."""

    def __init__(self, id: str, stores: Stores, call: RowCall, lanes: IdleLanes, rules: BatchRules) -> None:
        self.id = id
        self._stores = stores
        self._batches = stores.batches
        self._call = call
        self._lanes = lanes
        self._rules = rules
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Take the batch from where it is to its end. Raises StorageFailure; then it may be called again."""
        record = await self._batches.get(self.id)
        if record is not None and record.status == "validating":
            record = await self._validate(record)
        if record is not None and record.status == "in_progress":
            record = await self._work_on(record)
        if record is not None and not record.ended:
            await self._finish(record)

    async def _validate(self, record: BatchRecord) -> BatchRecord | None:
        if record.input_file is None:
            return await self._batches.advance(self.id, "in_progress", unless=("cancelling",))
        await self._batches.clear_rows(self.id)
        try:
            faults = await self._load_rows(record, record.input_file)
        except BadInput as bad:
            faults = (bad.fault,)
        if faults:
            return await self._batches.advance(self.id, "failed", faults=faults, drop_rows=True)
        return await self._batches.advance(self.id, "in_progress", unless=("cancelling",))

    async def _load_rows(self, record: BatchRecord, input_file: str) -> tuple[BatchFault, ...]:
        """Store all rows; what is wrong with them when all are malformed."""
        file = await self._stores.files.get(input_file, record.tenant)
        if file is None:
            raise BadInput(_gone(input_file))
        reader = InputReader(
            self._stores.files.path(file),
            record.endpoint,
            max_rows=self._rules.max_rows,
            max_line=self._rules.max_line,
        )
        faults: list[BatchFault] = []
        total = bad = 0
        chunks = reader.chunks()
        try:
            while chunk := await asyncio.to_thread(_next, chunks):
                await self._batches.add_rows(self.id, [row for _, row in chunk], total)
                total += len(chunk)
                wrong = [BatchFault(row.code, row.message, line) for line, row in chunk if row.code]
                bad += len(wrong)
                faults += wrong[: _FAULTS_LISTED - len(faults)]
        except OSError as error:
            raise BadInput(_gone(input_file)) from error
        return tuple(faults) if bad == total else ()

    async def _work_on(self, record: BatchRecord) -> BatchRecord | None:
        """Run rows until all have an outcome, time is up, or somebody cancels."""
        work = asyncio.ensure_future(self._run_rows())
        try:
            while not work.done():
                now = await self._batches.get(self.id)
                if now is None or now.status != "in_progress" or self._stores.clock() >= record.expires:
                    break
                await self._rest(work)
            if work.done():
                work.result()
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await work
        return await self._batches.get(self.id)

    async def _rest(self, work: asyncio.Future[None]) -> None:
        """Until the work is done, somebody calls, or it is time to look again: another server may have cancelled."""
        self.changed.clear()
        called = asyncio.ensure_future(self.changed.wait())
        try:
            await asyncio.wait((work, called), timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            called.cancel()

    async def _run_rows(self) -> None:
        room = asyncio.Semaphore(min(_IN_FLIGHT, 2 * self._lanes.lanes))
        try:
            async with asyncio.TaskGroup() as group:
                async for row in self._pending():
                    await room.acquire()
                    group.create_task(self._run_row(row)).add_done_callback(lambda _: room.release())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _pending(self) -> AsyncGenerator[BatchRow]:
        after = -1
        while rows := await self._batches.pending(self.id, after, _AHEAD_ROWS):
            for row in rows:
                yield row
            after = rows[-1].n

    async def _run_row(self, row: BatchRow) -> None:
        reply = await self._answer(row)
        good = 200 <= reply.status < 300
        done = structs.replace(
            row,
            outcome="succeeded" if good else "failed",
            status=reply.status,
            result=reply.body,
            request_id=reply.request_id,
        )
        await self._batches.finish_row(done, usage_of(reply.body) if good else RowUsage())

    async def _answer(self, row: BatchRow) -> RowReply:
        """The row's answer; where the server is too busy, it is asked again for two minutes."""
        clock = asyncio.get_running_loop().time
        until, pause = clock() + _RETRY_SECONDS, _PAUSES[0]
        while True:
            reply = await self._lanes.run(lambda: self._call(row.method, row.path, row.body))
            if reply.status not in _BUSY or clock() >= until:
                return reply
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])

    async def _finish(self, record: BatchRecord) -> None:
        """Give the rest of the rows an outcome, write the files, end the batch."""
        if record.status == "cancelling":
            await self._batches.finish_rest(
                self.id, "cancelled", "batch_cancelled", "The batch was cancelled before this request was run."
            )
        else:
            await self._batches.finish_rest(
                self.id,
                "expired",
                "batch_expired",
                "This request could not be executed before the completion window expired.",
            )
            await self._batches.advance(self.id, "finalizing", unless=("finalizing",))
        await end_batch(self._stores, self.id)


async def end_batch(stores: Stores, id: str, failure: BatchFault | None = None) -> None:
    """Write the files of a batch whose rows all have an outcome, and end it: with `failure` as failed, else as its rows
    and its status tell. Files and end become visible together."""
    record = await stores.batches.get(id)
    if record is None or record.ended:
        return
    files = (None, None) if record.input_file is None else await _write_files(stores, record)
    await stores.batches.advance(
        id,
        "failed" if failure is not None else _ending(record),
        faults=None if failure is None else (failure,),
        files=files,
        drop_rows=record.input_file is not None,
    )
    _log.info("batch %s has ended: %d of %d rows succeeded", id, record.completed, record.total)


def _ending(record: BatchRecord) -> BatchStatus:
    if record.status == "cancelling":
        return "cancelled"
    return "expired" if record.expired else "completed"


async def _write_files(stores: Stores, record: BatchRecord) -> tuple[FileRecord | None, FileRecord | None]:
    async def write(kind: str, outcomes: tuple[RowOutcome, ...]) -> FileRecord:
        async with contextlib.aclosing(stores.batches.rows(record.id, outcomes)) as pages:
            return await stores.files.write(
                lines_of(pages),
                name=f"{record.id}_{kind}.jsonl",
                purpose="batch_output",
                lifetime=record.output_expires,
                tenant=record.tenant,
            )

    output = await write("output", ("succeeded",)) if record.completed else None
    errors = await write("error", _ERROR_OUTCOMES) if record.total > record.completed else None
    return output, errors


def _next(chunks: Iterator[list[tuple[int, NewRow]]]) -> list[tuple[int, NewRow]] | None:
    return next(chunks, None)


def _gone(input_file: str) -> BatchFault:
    return BatchFault("invalid_input_file", f"The input file '{input_file}' is no longer there.", param="input_file_id")
