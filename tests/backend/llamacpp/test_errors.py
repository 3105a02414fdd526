"""llama.cpp's error answers as errors of core."""

from __future__ import annotations

import json

import pytest

from dragoman.backend.llamacpp.errors import error_in_stream, error_of
from dragoman.core.errors import (
    ContextLengthExceeded,
    EngineFailure,
    InvalidRequest,
    NotSupported,
    Overloaded,
    Unavailable,
)
from tests.backend.llamacpp.recorded import answer


def recorded(name: str) -> Exception:
    response = answer(name)
    return error_of(response["status"], json.dumps(response["body"]).encode())


def test_recorded_overflow_carries_both_numbers() -> None:
    error = recorded("context_overflow_error")
    assert isinstance(error, ContextLengthExceeded)
    assert (error.n_prompt, error.n_ctx) == (2048, 2048)


def test_recorded_loading_asks_to_come_back() -> None:
    error = recorded("health_loading_503_completion")
    assert isinstance(error, Unavailable)
    assert error.retry_after == 5
    assert "Loading model" in error.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, EngineFailure),
        (403, EngineFailure),
        (404, EngineFailure),
        (429, Overloaded),
        (500, EngineFailure),
        (501, NotSupported),
        (502, EngineFailure),
        (503, Unavailable),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b'{"error":{"message":"m"}}', b'{"error":"m"}'])
def test_statuses(status: int, kind: type[Exception], body: bytes) -> None:
    error = error_of(status, body)
    assert type(error) is kind
    assert error.message.endswith(".")


@pytest.mark.parametrize("error", [{"message": "boom", "code": 500}, "boom", {"message": 4}, None])
def test_errors_in_a_stream_are_failures(error: object) -> None:
    assert type(error_in_stream(error)) is EngineFailure
