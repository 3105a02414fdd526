"""The response object: what the request asked for, said back, with what came of it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.errors import DragomanError, InvalidRequest, Overloaded
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.responses import ResponseStatus
from dragoman.core.sampling import SamplingSpec
from dragoman.core.usage import Usage
from dragoman.dialects.base import ReplyContext
from dragoman.dialects.openai_errors import error_body
from dragoman.dialects.openai_responses.schema import CreateResponse, ReasoningFields


class Standing(Struct, kw_only=True):
    """How a response stands. Times in Unix seconds."""

    status: ResponseStatus = "in_progress"
    completed_at: int | None = None
    error: dict[str, Any] | None = None
    incomplete: str | None = None
    usage: Usage | None = None
    output: list[dict[str, Any]]


def echo_of(body: CreateResponse, id: str, context: ReplyContext) -> dict[str, Any]:
    """The fields of the object that do not change; of the sampling, what is in force."""
    reasoning = body.reasoning or ReasoningFields()
    sampling = context.in_force[0].sampling if context.in_force else SamplingSpec()
    text = body.text
    format: dict[str, Any] = {"type": "text"}
    if text is not None and text.format is not None:
        format = {name: value for name, value in msgspec.structs.asdict(text.format).items() if value is not None}
    return {
        "id": id,
        "object": "response",
        "created_at": context.created,
        "background": body.background is True,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": context.card.id,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": reasoning.effort, "summary": reasoning.summary or reasoning.generate_summary},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.store is not False,
        "temperature": body.temperature if sampling.temperature is None else sampling.temperature,
        "text": {"format": format, "verbosity": (text.verbosity if text else None) or "medium"},
        "tool_choice": body.tool_choice if body.tool_choice is not None else "auto",
        "tools": body.tools or [],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": body.top_p if sampling.top_p is None else sampling.top_p,
        "truncation": body.truncation or "disabled",
        "user": body.user,
    }


def response_object(echo: dict[str, Any], standing: Standing) -> dict[str, Any]:
    """The whole object."""
    return {
        **echo,
        "status": standing.status,
        "completed_at": standing.completed_at,
        "error": standing.error,
        "incomplete_details": {"reason": standing.incomplete} if standing.incomplete else None,
        "output": standing.output,
        "usage": None if standing.usage is None else usage_of(standing.usage),
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """Token counts in this wire's words. Nobody is charged for writing to the cache, so none are counted there."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def error_of(error: DragomanError) -> dict[str, Any]:
    """The `error` of a failed response. SDKs have three words for what can happen here; the exact one stands beside."""
    inner: dict[str, Any] = msgspec.json.decode(error_body(error))["error"]
    code = "server_error"
    if isinstance(error, InvalidRequest):
        code = inner["code"] if inner["code"] == "context_length_exceeded" else "invalid_prompt"
    elif isinstance(error, Overloaded):
        code = "rate_limit_exceeded"
    return {"code": code, "message": inner["message"], "type": inner["type"], "param": inner["param"]}


def incomplete_reason(finish: Finish) -> str | None:
    """Why a response that ended so is not complete; None when it is."""
    return "max_output_tokens" if finish.reason in (FinishReason.LENGTH, FinishReason.CONTEXT) else None


def interrupted(body: bytes, now: int) -> bytes:
    """The body of a response whose server went away while it ran."""
    value: dict[str, Any] = msgspec.json.decode(body)
    for item in value.get("output") or ():
        if item.get("status") == "in_progress":
            item["status"] = "incomplete"
    message = "The server was stopped while this response was running."
    value.update(status="failed", completed_at=now, error={"code": "server_restarted", "message": message})
    return msgspec.json.encode(value)
