"""Wire structs of message batches."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialects.anthropic.errors import ErrorEnvelope


class BatchEntry(msgspec.Struct, kw_only=True):
    """One request of a batch; `params` is the body of a message."""

    custom_id: str
    params: msgspec.Raw


class BatchBody(msgspec.Struct, kw_only=True):
    """Body of POST /v1/messages/batches."""

    requests: list[BatchEntry]


class BatchEntryShape(msgspec.Struct, kw_only=True):
    """One request of a batch as the API document shows it."""

    custom_id: str
    params: dict[str, Any]


class BatchBodyShape(msgspec.Struct, kw_only=True):
    """Body of POST /v1/messages/batches as the API document shows it."""

    requests: list[BatchEntryShape]


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Requests by what became of them; their sum is all of them."""

    processing: int
    succeeded: int
    errored: int
    canceled: int
    expired: int


class MessageBatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message_batch"):
    """A batch. Times in RFC 3339."""

    id: str
    processing_status: str
    request_counts: RequestCounts
    created_at: str
    expires_at: str
    ended_at: str | None
    cancel_initiated_at: str | None
    archived_at: str | None = None
    results_url: str | None


class BatchDeletion(msgspec.Struct, frozen=True, tag_field="type", tag="message_batch_deleted"):
    """A batch is forgotten."""

    id: str


class Succeeded(msgspec.Struct, frozen=True, tag_field="type", tag="succeeded"):
    """A request that was answered with a message."""

    message: msgspec.Raw


class Errored(msgspec.Struct, frozen=True, tag_field="type", tag="errored"):
    """A request that was refused or failed."""

    error: msgspec.Raw | ErrorEnvelope


class Canceled(msgspec.Struct, frozen=True, tag_field="type", tag="canceled"):
    """A request that was not run, because the batch was cancelled."""


class Expired(msgspec.Struct, frozen=True, tag_field="type", tag="expired"):
    """A request that was not run in time."""


class BatchLine(msgspec.Struct, frozen=True):
    """One line of the results."""

    custom_id: str
    result: Succeeded | Errored | Canceled | Expired
