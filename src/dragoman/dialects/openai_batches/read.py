"""Batch routes -> core requests. Knows no store."""

from __future__ import annotations

from dragoman.core.batches import BatchCancel, BatchCreate, BatchList, BatchLookup
from dragoman.core.errors import InvalidField
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.openai_batches.schema import ENDPOINTS, BatchBody
from dragoman.dialects.openai_batches.write import SURFACE, WINDOW, write_batch, write_page
from dragoman.dialects.openai_expiry import read_expiry
from dragoman.dialects.openai_listing import read_cursor, read_limit

MAX_PAIRS, MAX_KEY, MAX_VALUE = 16, 64, 512


def read_create(wire: WireRequest) -> SmallCall:
    """POST /v1/batches."""
    values = decode_object(wire.body)
    body = convert(values, BatchBody)
    if body.endpoint not in ENDPOINTS:
        listed = ", ".join(ENDPOINTS)
        raise InvalidField(f"'{body.endpoint[:80]}' cannot be batched here; '{listed}' can.", field="endpoint")
    if body.completion_window != WINDOW:
        raise InvalidField(f"'completion_window' must be '{WINDOW}'.", field="completion_window")
    expiry = body.output_expires_after
    request = BatchCreate(
        surface=SURFACE,
        id_prefix="batch_",
        endpoint=body.endpoint,
        input_file=body.input_file_id,
        metadata=_metadata(body.metadata),
        output_expires=None if expiry is None else read_expiry(expiry.anchor, expiry.seconds, "output_expires_after"),
    )
    return SmallCall(request=request, write=write_batch, ignored=unknown_fields(values, BatchBody))


def read_list(wire: WireRequest) -> SmallCall:
    """GET /v1/batches."""
    request = BatchList(surface=SURFACE, limit=read_limit(wire.query, 20, 100), after=read_cursor(wire.query))
    return SmallCall(request=request, write=write_page)


def read_lookup(wire: WireRequest) -> SmallCall:
    """GET /v1/batches/{id}."""
    return SmallCall(request=BatchLookup(wire.params["id"], SURFACE), write=write_batch)


def read_cancel(wire: WireRequest) -> SmallCall:
    """POST /v1/batches/{id}/cancel."""
    return SmallCall(request=BatchCancel(wire.params["id"], SURFACE), write=write_batch)


def _metadata(pairs: dict[str, str] | None) -> dict[str, str] | None:
    if pairs is None:
        return None
    if len(pairs) > MAX_PAIRS:
        raise InvalidField(f"'metadata' may have {MAX_PAIRS} pairs.", field="metadata")
    for key, value in pairs.items():
        if not 0 < len(key) <= MAX_KEY:
            raise InvalidField(f"A key of 'metadata' must have 1 to {MAX_KEY} characters.", field="metadata")
        if len(value) > MAX_VALUE:
            raise InvalidField(f"A value of 'metadata' may have {MAX_VALUE} characters.", field=f"metadata.{key}")
    return pairs
