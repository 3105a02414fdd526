"""The OpenAI envelope of every error kind."""

from __future__ import annotations

import json

import pytest

from dragoman.core import errors
from dragoman.dialects.openai_errors import openai_error


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "param"),
    [
        (errors.InvalidRequest("m"), 400, "invalid_request_error", "invalid_request", None),
        (errors.InvalidJSON("m"), 400, "invalid_request_error", "invalid_json", None),
        (errors.MissingField("m", field="f"), 400, "invalid_request_error", "missing_required_parameter", "f"),
        (errors.InvalidField("m", field="a[0].b"), 400, "invalid_request_error", "invalid_value", "a[0].b"),
        (errors.UnsupportedField("m", field="f"), 400, "invalid_request_error", "unsupported_parameter", "f"),
        (
            errors.ContextLengthExceeded(100, 64, field="messages"),
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "messages",
        ),
        (errors.AuthenticationFailed("m"), 401, "invalid_request_error", "invalid_api_key", None),
        (errors.Forbidden("m"), 403, "permission_error", "forbidden", None),
        (errors.NotFound("m"), 404, "invalid_request_error", "not_found", None),
        (errors.ModelNotFound("nope", "tiny"), 404, "invalid_request_error", "model_not_found", "model"),
        (errors.MethodNotAllowed("m", allowed=("POST",)), 405, "invalid_request_error", "method_not_allowed", None),
        (errors.RequestTimeout("m"), 408, "invalid_request_error", "request_timeout", None),
        (errors.PayloadTooLarge("m"), 413, "invalid_request_error", "payload_too_large", None),
        (errors.MisdirectedRequest("m"), 421, "invalid_request_error", "misdirected_request", None),
        (errors.Overloaded("m"), 429, "rate_limit_error", "overloaded", None),
        (errors.HeadersTooLarge("m"), 431, "invalid_request_error", "headers_too_large", None),
        (errors.EngineFailure("m"), 500, "server_error", "engine_failure", None),
        (errors.DragomanError("m"), 500, "server_error", "internal_error", None),
        (errors.NotSupported("m"), 501, "not_supported_error", "not_supported", None),
        (errors.Unavailable("m"), 503, "service_unavailable_error", "unavailable", None),
    ],
)
def test_envelopes(error: errors.DragomanError, status: int, kind: str, code: str, param: str | None) -> None:
    reply = openai_error(error, "req_1")
    body = json.loads(reply.body)
    assert reply.status == status
    assert set(body) == {"error"}
    found = body["error"]
    assert set(found) == {"message", "type", "param", "code"}
    assert (found["type"], found["code"], found["param"]) == (kind, code, param)
    assert found["message"]


def test_case_28_overflow_names_both_numbers() -> None:
    message = json.loads(openai_error(errors.ContextLengthExceeded(100, 64), "r").body)["error"]["message"]
    assert "maximum context length is 64 tokens" in message
    assert "100 tokens" in message


def test_remedy_follows_the_message() -> None:
    body = json.loads(openai_error(errors.UnsupportedField("No.", field="x", remedy="Leave it out."), "r").body)
    assert body["error"]["message"] == "No. Leave it out."


def test_who_shall_come_back_is_told_when() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DragomanError)
    ]
    assert {kind for kind in kinds if kind.status in (429, 503)} == {errors.Overloaded, errors.Unavailable}
    assert errors.Overloaded("m").retry_after
    assert errors.Unavailable("m").retry_after
    assert errors.Unavailable("m", retry_after=30).retry_after == 30
    assert errors.EngineFailure("m").retry_after is None
