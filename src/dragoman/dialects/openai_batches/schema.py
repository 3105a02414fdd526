"""Wire structs of the Batch API."""

from __future__ import annotations

from typing import Any

import msgspec

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings")


class OutputExpiresAfter(msgspec.Struct, frozen=True):
    """When output files are to go."""

    anchor: Any = None
    seconds: Any = None


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of POST /v1/batches."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_expires_after: OutputExpiresAfter | None = None


class BatchesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Query of GET /v1/batches."""

    after: str | None = None
    limit: int | None = None


class FaultObject(msgspec.Struct, frozen=True):
    """Why a batch failed."""

    code: str
    message: str
    param: str | None
    line: int | None


class FaultList(msgspec.Struct, frozen=True, kw_only=True):
    """All reasons."""

    object: str = "list"
    data: list[FaultObject]


class RequestCounts(msgspec.Struct, frozen=True):
    """Rows by what became of them."""

    total: int
    completed: int
    failed: int


class InputDetails(msgspec.Struct, frozen=True):
    """Prompt tokens that came from the cache."""

    cached_tokens: int


class OutputDetails(msgspec.Struct, frozen=True):
    """Answer tokens that were thought."""

    reasoning_tokens: int


class UsageObject(msgspec.Struct, frozen=True):
    """Tokens of all rows that were answered."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class BatchObject(msgspec.Struct, frozen=True, kw_only=True):
    """A batch. Times in Unix seconds."""

    id: str
    object: str = "batch"
    endpoint: str
    model: str
    errors: FaultList | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: UsageObject
    metadata: dict[str, str] | None
