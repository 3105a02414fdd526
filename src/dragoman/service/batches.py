"""The use cases of batches. Knows no wire and not how rows are run."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.core.batches import (
    BatchCancel,
    BatchCreate,
    BatchDelete,
    BatchDeleted,
    BatchList,
    BatchLookup,
    BatchPage,
    BatchRecord,
    BatchRequest,
    BatchResult,
    BatchResults,
    BatchRows,
)
from dragoman.core.errors import InvalidField, InvalidRequest, NotFound, Overloaded
from dragoman.core.ids import new_id
from dragoman.jobs.runner import BatchRunner
from dragoman.stores.stores import Stores

WINDOW_SECONDS = 24 * 3600
MAX_ACTIVE = 100


class BatchDesk:
    """Batches by request. `model` names the model they are sent to."""

    def __init__(self, stores: Stores, runner: BatchRunner, model: Callable[[], str]) -> None:
        self._stores = stores
        self._batches = stores.batches
        self._runner = runner
        self._model = model

    async def run(self, request: BatchRequest) -> BatchResult:
        """Raises NotFound for a batch that is not there, InvalidRequest for what its state forbids, Overloaded when
        too many are at work, StorageFailure."""
        match request:
            case BatchCreate():
                return await self._create(request)
            case BatchLookup():
                return await self._found(request)
            case BatchCancel():
                return await self._cancel(request)
            case BatchDelete():
                return await self._delete(request)
            case BatchResults():
                record = await self._found(request)
                if not record.ended:
                    raise InvalidRequest(f"The batch '{record.id}' has not ended; it has no results yet.")
                return BatchRows(record, self._batches.rows(record.id))
            case BatchList():
                return await self._page(request)

    async def _create(self, request: BatchCreate) -> BatchRecord:
        await self._check(request)
        now = int(self._stores.clock())
        record = BatchRecord(
            id=new_id(request.id_prefix),
            tenant=request.tenant,
            surface=request.surface,
            status="validating" if request.input_file is not None else "in_progress",
            created=now,
            expires=now + WINDOW_SECONDS,
            endpoint=request.endpoint,
            model=self._model(),
            owner=self._stores.instance.id,
            input_file=request.input_file,
            output_expires=request.output_expires,
            metadata=request.metadata,
            times={} if request.input_file is not None else {"in_progress": now},
        )
        stored = await self._batches.create(record, request.rows)
        self._runner.begin(stored.id)
        return stored

    async def _check(self, request: BatchCreate) -> None:
        if self._runner.running >= MAX_ACTIVE:
            raise Overloaded(f"{MAX_ACTIVE} batches are at work on this server.", retry_after=60)
        if len(request.rows) > self._runner.max_rows:
            most = self._runner.max_rows
            raise InvalidField(f"requests: a batch may have {most} of them here.", field="requests")
        if request.input_file is None:
            return
        file = await self._stores.files.get(request.input_file, request.tenant)
        if file is None:
            raise NotFound(f"There is no file '{request.input_file[:80]}' on this server.", field="input_file_id")
        if file.purpose != "batch":
            raise InvalidField(
                f"The file '{file.id}' was uploaded with the purpose '{file.purpose}'.",
                field="input_file_id",
                remedy="Upload it with the purpose 'batch'.",
            )

    async def _found(self, request: BatchLookup | BatchCancel | BatchDelete | BatchResults) -> BatchRecord:
        record = await self._batches.get(request.id)
        if record is None or (record.surface, record.tenant) != (request.surface, request.tenant):
            raise NotFound(f"There is no batch '{request.id[:80]}' on this server.", field="batch_id")
        return record

    async def _cancel(self, request: BatchCancel) -> BatchRecord:
        record = await self._found(request)
        if record.ended or record.status == "finalizing":
            raise InvalidRequest(f"The batch '{record.id}' cannot be cancelled: its status is '{record.status}'.")
        return await self._runner.cancel(record.id) or record

    async def _delete(self, request: BatchDelete) -> BatchDeleted:
        record = await self._found(request)
        if not await self._batches.delete(record.id):
            raise InvalidRequest(
                f"The batch '{record.id}' has not ended: its status is '{record.status}'.", remedy="Cancel it first."
            )
        return BatchDeleted(record.id)

    async def _page(self, request: BatchList) -> BatchPage:
        page = await self._batches.page(
            request.surface, limit=request.limit, after=request.after, before=request.before, tenant=request.tenant
        )
        if page is None:
            cursor, field = (request.after, "after") if request.after else (request.before, "before")
            raise InvalidField(f"There is no batch '{cursor}' to list from.", field=field)
        return page
