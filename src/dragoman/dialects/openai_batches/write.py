"""Batches -> the OpenAI batch object and lists."""

from __future__ import annotations

import msgspec

from dragoman.core.batches import BatchPage, BatchRecord, RowUsage
from dragoman.dialects.openai_batches.schema import (
    BatchObject,
    FaultList,
    FaultObject,
    InputDetails,
    OutputDetails,
    RequestCounts,
    UsageObject,
)
from dragoman.dialects.openai_listing import listing

SURFACE = "openai"
WINDOW = "24h"


def write_batch(record: BatchRecord) -> bytes:
    """One batch."""
    return msgspec.json.encode(batch_object(record))


def write_page(page: BatchPage) -> bytes:
    """A page of batches."""
    objects = [batch_object(record) for record in page.batches]
    return msgspec.json.encode(listing(objects, [batch.id for batch in objects], page.more))


def batch_object(record: BatchRecord) -> BatchObject:
    """One batch as the wire has it. Rows that were cancelled or expired count as neither completed nor failed."""
    at = record.times.get
    return BatchObject(
        id=record.id,
        endpoint=record.endpoint,
        model=record.model,
        errors=_faults(record),
        input_file_id=record.input_file or "",
        completion_window=WINDOW,
        status=record.status,
        output_file_id=record.output_file,
        error_file_id=record.error_file,
        created_at=record.created,
        in_progress_at=at("in_progress"),
        expires_at=record.expires,
        finalizing_at=at("finalizing"),
        completed_at=at("completed"),
        failed_at=at("failed"),
        expired_at=at("expired"),
        cancelling_at=at("cancelling"),
        cancelled_at=at("cancelled"),
        request_counts=RequestCounts(record.total, record.completed, record.failed),
        usage=_usage(record.usage),
        metadata=record.metadata,
    )


def _faults(record: BatchRecord) -> FaultList | None:
    if not record.faults:
        return None
    return FaultList(data=[FaultObject(fault.code, fault.message, fault.param, fault.line) for fault in record.faults])


def _usage(usage: RowUsage) -> UsageObject:
    return UsageObject(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputDetails(usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputDetails(usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )
