"""Batches -> message batches, their lists and their results."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec
from msgspec import Struct

from dragoman.core.batches import BatchDeleted, BatchPage, BatchRecord, BatchRow, BatchRows
from dragoman.dialects.anthropic.batch_schema import (
    BatchDeletion,
    BatchLine,
    Canceled,
    Errored,
    Expired,
    MessageBatch,
    RequestCounts,
    Succeeded,
)
from dragoman.dialects.anthropic.errors import ErrorEnvelope, ErrorObject
from dragoman.dialects.anthropic.paging import page_of
from dragoman.dialects.anthropic.stamp import stamp
from dragoman.dialects.base import ByteStream

LINES_TYPE = "application/x-jsonl"

_CANCELLING = "cancelling"


class BatchWriter(Struct, frozen=True):
    """Writes batches whose results are found at `origin` (scheme and host, '' where that is not known)."""

    origin: str

    def batch(self, record: BatchRecord) -> bytes:
        """One batch."""
        return msgspec.json.encode(self._object(record))

    def page(self, page: BatchPage) -> bytes:
        """A page of batches, newest first."""
        ids = [record.id for record in page.batches]
        return msgspec.json.encode(page_of([self._object(record) for record in page.batches], ids, page.more))

    def _object(self, record: BatchRecord) -> MessageBatch:
        cancelled = record.times.get(_CANCELLING)
        return MessageBatch(
            id=record.id,
            processing_status=_status(record),
            request_counts=RequestCounts(
                processing=record.processing,
                succeeded=record.completed,
                errored=record.failed,
                canceled=record.cancelled,
                expired=record.expired,
            ),
            created_at=stamp(record.created),
            expires_at=stamp(record.expires),
            ended_at=stamp(record.times.get(record.status, record.created)) if record.ended else None,
            cancel_initiated_at=None if cancelled is None else stamp(cancelled),
            results_url=f"{self.origin}/v1/messages/batches/{record.id}/results" if record.ended else None,
        )


def write_deletion(deleted: BatchDeleted) -> bytes:
    """The batch is gone."""
    return msgspec.json.encode(BatchDeletion(deleted.id))


def write_results(found: BatchRows) -> ByteStream:
    """One line for each request, in the order in which they were sent."""
    return ByteStream(pieces=_lines(found.pages), content_type=LINES_TYPE)


async def _lines(pages: AsyncGenerator[tuple[BatchRow, ...]]) -> AsyncGenerator[bytes]:
    try:
        async for rows in pages:
            yield b"".join(msgspec.json.encode(_line(row)) + b"\n" for row in rows)
    finally:
        await pages.aclose()


def _line(row: BatchRow) -> BatchLine:
    return BatchLine(row.custom_id or "", _result(row))


def _result(row: BatchRow) -> Succeeded | Errored | Canceled | Expired:
    match row.outcome:
        case "succeeded":
            return Succeeded(msgspec.Raw(row.result))
        case "cancelled":
            return Canceled()
        case "expired":
            return Expired()
        case _:
            return Errored(msgspec.Raw(row.result) if row.result else _envelope(row))


def _envelope(row: BatchRow) -> ErrorEnvelope:
    """Of a request that was never run."""
    return ErrorEnvelope(ErrorObject("invalid_request_error", row.message), row.request_id)


def _status(record: BatchRecord) -> str:
    if record.ended:
        return "ended"
    return "canceling" if record.status == _CANCELLING else "in_progress"
