"""The Anthropic envelope of every error kind."""

from __future__ import annotations

import json

import pytest
from anthropic.types import ErrorResponse

from dragoman.core import errors
from dragoman.dialects.anthropic.errors import ThreadsUnsupported, anthropic_error


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.InvalidRequest("m"), 400, "invalid_request_error"),
        (errors.InvalidJSON("m"), 400, "invalid_request_error"),
        (errors.MissingField("m", field="f"), 400, "invalid_request_error"),
        (errors.InvalidField("m", field="f"), 400, "invalid_request_error"),
        (errors.UnsupportedField("m", field="f"), 400, "invalid_request_error"),
        (errors.ContextLengthExceeded(100, 64), 400, "invalid_request_error"),
        (errors.AuthenticationFailed("m"), 401, "authentication_error"),
        (errors.Forbidden("m"), 403, "permission_error"),
        (errors.NotFound("m"), 404, "not_found_error"),
        (errors.ModelNotFound("nope", "tiny"), 404, "not_found_error"),
        (errors.MethodNotAllowed("m", allowed=("POST",)), 405, "invalid_request_error"),
        (errors.RequestTimeout("m"), 408, "timeout_error"),
        (errors.PayloadTooLarge("m"), 413, "request_too_large"),
        (errors.MisdirectedRequest("m"), 421, "invalid_request_error"),
        (errors.Overloaded("m", retry_after=1), 429, "rate_limit_error"),
        (errors.HeadersTooLarge("m"), 431, "request_too_large"),
        (errors.EngineFailure("m"), 500, "api_error"),
        (errors.DragomanError("m"), 500, "api_error"),
        (errors.NotSupported("m"), 501, "api_error"),
        (errors.Unavailable("m", retry_after=1), 503, "overloaded_error"),
    ],
)
def test_envelopes(error: errors.DragomanError, status: int, kind: str) -> None:
    reply = anthropic_error(error, "req_1")
    body = json.loads(reply.body)
    assert reply.status == status
    assert set(body) == {"type", "error", "request_id"}
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", kind, "req_1")
    if kind != "request_too_large":  # a real type of the API which the SDK's models do not list
        assert ErrorResponse.model_validate(body).error.type == kind


def test_case_28_overflow_in_the_words_agents_look_for() -> None:
    body = json.loads(anthropic_error(errors.ContextLengthExceeded(100, 64), "r").body)
    assert body["error"]["message"] == "prompt is too long: 100 tokens > 64 maximum"


def test_remedy_follows_the_message() -> None:
    body = json.loads(anthropic_error(errors.UnsupportedField("No.", field="x", remedy="Leave it out."), "r").body)
    assert body["error"]["message"] == "No. Leave it out."


def test_threads_are_refused_as_the_sdk_understands_it() -> None:
    error = json.loads(anthropic_error(ThreadsUnsupported(), "req_1").body)["error"]
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert "details" not in json.loads(anthropic_error(errors.InvalidRequest("m"), "req_1").body)["error"]
