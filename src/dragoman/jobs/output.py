"""The lines of a batch's output and error files. Knows no store and no disk."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from dragoman.core.batches import BatchRow


class RowResponse(msgspec.Struct, frozen=True):
    """What a row was answered."""

    status_code: int
    request_id: str
    body: msgspec.Raw


class RowError(msgspec.Struct, frozen=True):
    """Why a row has no answer."""

    code: str
    message: str


class Line(msgspec.Struct, frozen=True):
    """One line of either file."""

    id: str
    custom_id: str | None
    response: RowResponse | None
    error: RowError | None


def line_of(row: BatchRow) -> bytes:
    """The line of a row that has an outcome, with its end."""
    if row.status:
        response = RowResponse(row.status, row.request_id, msgspec.Raw(row.result or b"null"))
        line = Line(row.id, row.custom_id, response, None)
    else:
        line = Line(row.id, row.custom_id, None, RowError(row.code, row.message))
    return msgspec.json.encode(line) + b"\n"


async def lines_of(pages: AsyncIterator[tuple[BatchRow, ...]]) -> AsyncGenerator[bytes]:
    """The lines of all rows, a page at a time."""
    async for page in pages:
        yield b"".join(map(line_of, page))
