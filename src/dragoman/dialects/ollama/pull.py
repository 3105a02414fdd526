"""Models fetched and pushed: pull as a stream of steps or whole; there is nowhere to push to. Fetches nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from dragoman.core.errors import DragomanError, NotSupported
from dragoman.core.names import PullRequest, PullStep, PullSteps
from dragoman.dialects.base import ByteStream, SmallCall, WireRequest
from dragoman.dialects.decoding import unknown_fields
from dragoman.dialects.ollama.body import decode_body, model_of
from dragoman.dialects.ollama.catalog_schema import PullBody
from dragoman.dialects.ollama.errors import error_line
from dragoman.dialects.ollama.names import NDJSON


def read_pull(wire: WireRequest) -> SmallCall:
    """POST /api/pull."""
    fields, body = decode_body(wire, PullBody)
    whole = body.stream is False
    return SmallCall(
        request=PullRequest(model_of(body), wait=whole),
        write=_write_step if whole else _write_steps,
        ignored=unknown_fields(fields, PullBody),
    )


def read_push(wire: WireRequest) -> SmallCall:
    """POST /api/push. Raises NotSupported."""
    decode_body(wire, PullBody)
    raise NotSupported("This server pushes no models: it belongs to no registry.")


def _write_step(step: PullStep) -> bytes:
    told: dict[str, Any] = {"status": step.status}
    if step.digest:
        told |= {"digest": step.digest, "total": step.total}
    if step.completed:
        told["completed"] = step.completed
    return msgspec.json.encode(told)


def _write_steps(result: PullSteps) -> ByteStream:
    return ByteStream(pieces=_lines(result.steps), content_type=NDJSON)


async def _lines(steps: AsyncGenerator[PullStep]) -> AsyncGenerator[bytes]:
    """The steps as lines. What goes wrong is the last line, since the status has been sent by then."""
    try:
        async for step in steps:
            yield _write_step(step) + b"\n"
    except DragomanError as error:
        yield error_line(error) + b"\n"
    finally:
        await steps.aclose()
