"""The operator's table: metrics, and the error envelope of paths no client's wire claims."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import DragomanError
from dragoman.core.operations import Metrics, MetricsRequest
from dragoman.dialects.base import Dialect, Endpoint, ErrorReply, SmallCall, WireRequest

METRICS_TYPE = "text/plain; version=0.0.4"


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, in one sentence and in one word."""

    message: str
    code: str
    request_id: str


class OperatorError(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of paths no client's wire claims."""

    error: ErrorDetail


def read_metrics(_: WireRequest) -> SmallCall:
    """GET /metrics has nothing to read."""
    return SmallCall(request=MetricsRequest(), write=_write_metrics, content_type=METRICS_TYPE)


def write_error(error: DragomanError, request_id: str) -> ErrorReply:
    """`{"error": {"message", "code", "request_id"}}`."""
    inner = ErrorDetail(message=error.sentence, code=error.code, request_id=request_id)
    return ErrorReply(error.status, msgspec.json.encode(OperatorError(error=inner)))


def _write_metrics(metrics: Metrics) -> bytes:
    return metrics.text


DIALECT = Dialect(
    name="operator",
    endpoints=(
        Endpoint(
            method="GET", path="/metrics", summary="Prometheus metrics", read=read_metrics, content_type=METRICS_TYPE
        ),
    ),
    error=write_error,
    error_body=OperatorError,
    prefixes=("/metrics", "/openapi.json"),
)
