"""Batches of requests that are answered when there is room: records, rows, and what may be asked. Knows no wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

from msgspec import Struct, field

BatchStatus = Literal[
    "validating", "in_progress", "finalizing", "cancelling", "completed", "failed", "expired", "cancelled"
]
ENDED: tuple[BatchStatus, ...] = ("completed", "failed", "expired", "cancelled")

RowOutcome = Literal["pending", "succeeded", "failed", "invalid", "cancelled", "expired"]


class BatchFault(Struct, frozen=True):
    """Why a batch failed. `line` of the input file, from 1; `param` the field at fault."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class RowUsage(Struct, frozen=True):
    """Tokens of one answered row, or the sum over rows."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class NewRow(Struct, frozen=True, kw_only=True):
    """A row as it was sent in. `code` and `message` are set when it is malformed and will not be run."""

    custom_id: str | None
    method: str = "POST"
    path: str = ""
    body: bytes = b""
    code: str = ""
    message: str = ""


class BatchRow(Struct, frozen=True, kw_only=True):
    """A row as it is kept. `n` counts from 0 in the order of arrival, `id` is the row's own. `status` is the HTTP
    status of its answer and `result` the answer's body, once there is one; `code` and `message` tell why there is
    none."""

    batch: str
    n: int
    id: str
    custom_id: str | None
    method: str
    path: str
    body: bytes
    outcome: RowOutcome
    status: int = 0
    request_id: str = ""
    result: bytes = b""
    code: str = ""
    message: str = ""


class BatchRecord(Struct, frozen=True, kw_only=True):
    """A batch. `surface` is the name of the wire it belongs to; other wires do not see it. `times` are Unix seconds by
    status reached; rows not yet answered are `total` less the four counts. `output_expires` seconds its output files
    are kept. `owner` is the server process that works on it, `model` the model it was sent to."""

    id: str
    tenant: str = ""
    surface: str
    status: BatchStatus
    created: int
    expires: int
    endpoint: str = ""
    model: str = ""
    owner: str = ""
    input_file: str | None = None
    output_file: str | None = None
    error_file: str | None = None
    output_expires: int | None = None
    metadata: dict[str, str] | None = None
    times: dict[str, int] = field(default_factory=dict[str, int])
    faults: tuple[BatchFault, ...] = ()
    total: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    usage: RowUsage = RowUsage()

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in ENDED

    @property
    def processing(self) -> int:
        """Rows without an outcome."""
        return self.total - self.completed - self.failed - self.cancelled - self.expired


class BatchCreate(Struct, frozen=True, kw_only=True):
    """A batch is to be run: the rows of an input file, which all go to `endpoint`, or `rows`."""

    surface: str
    id_prefix: str
    endpoint: str = ""
    input_file: str | None = None
    rows: tuple[NewRow, ...] = ()
    metadata: dict[str, str] | None = None
    output_expires: int | None = None
    tenant: str = ""


class BatchLookup(Struct, frozen=True):
    """The record of one batch."""

    id: str
    surface: str
    tenant: str = ""


class BatchCancel(Struct, frozen=True):
    """One batch is to end early; rows answered are kept."""

    id: str
    surface: str
    tenant: str = ""


class BatchDelete(Struct, frozen=True):
    """One batch that has ended is to be forgotten with its rows."""

    id: str
    surface: str
    tenant: str = ""


class BatchList(Struct, frozen=True, kw_only=True):
    """One page of batches, newest first: those older than `after`, or those right before (newer than) `before`."""

    surface: str
    limit: int
    after: str | None = None
    before: str | None = None
    tenant: str = ""


class BatchResults(Struct, frozen=True):
    """The rows of one batch that has ended."""

    id: str
    surface: str
    tenant: str = ""


class BatchPage(Struct, frozen=True):
    """Batches, newest first, and whether there are more in the direction asked for."""

    batches: tuple[BatchRecord, ...]
    more: bool


class BatchRows(Struct, frozen=True):
    """A batch and its rows in pages, in the order in which they were sent in. The pages must be read or closed."""

    record: BatchRecord
    pages: AsyncGenerator[tuple[BatchRow, ...]]


class BatchDeleted(Struct, frozen=True):
    """The batch of that id is forgotten."""

    id: str


BatchRequest = BatchCreate | BatchLookup | BatchCancel | BatchDelete | BatchList | BatchResults
BatchResult = BatchRecord | BatchPage | BatchRows | BatchDeleted
