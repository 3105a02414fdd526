"""Messages requests -> core. Runs nothing and knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.messages import Message, TextPart
from dragoman.core.operations import CountRequest
from dragoman.core.request import CacheHints, ChatInput, OutputFormat, Request, Thinking
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.anthropic.messages import read_system, read_turns
from dragoman.dialects.anthropic.schema import CountRequestBody, FormatParam, MessagesRequestBody, Metadata
from dragoman.dialects.anthropic.tools import ToolSetup, read_tools
from dragoman.dialects.anthropic.write import MessageWriter, write_count
from dragoman.dialects.base import GenerateCall, SmallCall, WireRequest
from dragoman.dialects.constraint import one_format, schema_text
from dragoman.dialects.decoding import convert, decode_object, unknown_fields

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
DISPLAYS = ("summarized", "omitted")
MAX_STOPS = 64

_SEEDS = 1 << 64
_INT_MAX = (1 << 31) - 1
_SESSION_HEADERS = ("x-claude-code-session-id", "x-session-affinity", "x-session-id", "session_id")
_RANGES: dict[str, tuple[float, float | None]] = {
    "temperature": (0, 1),
    "top_p": (0, 1),
    "top_k": (0, _INT_MAX),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
}


def read_messages(wire: WireRequest) -> GenerateCall:
    """POST /v1/messages. Raises InvalidRequest and its kin naming the field."""
    value = decode_object(wire.body)
    body = convert(value, MessagesRequestBody)
    tools = read_tools(body.tools, body.tool_choice)
    if body.max_tokens < 1:
        raise InvalidField("max_tokens: it must be at least 1.", field="max_tokens")
    budget = body.thinking.budget_tokens if body.thinking else None
    if budget is not None and budget >= body.max_tokens:
        raise InvalidField("thinking.budget_tokens: it must be less than max_tokens.", field="thinking.budget_tokens")
    request = Request(
        input=_input(body, tools),
        model=body.model,
        sampling=_sampling(body),
        max_tokens=body.max_tokens,
        stop=_stop(body.stop_sequences),
        format=_format(body),
        cache=CacheHints(session=_session(body.metadata, wire.headers)),
    )
    omit_thinking = body.thinking is not None and body.thinking.display == "omitted"
    return GenerateCall(
        requests=(request,),
        stream=body.stream is True,
        writer=lambda context: MessageWriter(context, omit_thinking=omit_thinking),
        ignored=unknown_fields(value, MessagesRequestBody) + tools.ignored,
    )


def read_count(wire: WireRequest) -> SmallCall:
    """POST /v1/messages/count_tokens. Fields that only matter for generating are accepted and unused."""
    value = decode_object(wire.body)
    body = convert(value, CountRequestBody)
    tools = read_tools(body.tools, body.tool_choice)
    request = Request(input=_input(body, tools), model=body.model, format=_format(body))
    return SmallCall(
        request=CountRequest(request),
        write=write_count,
        ignored=unknown_fields(value, MessagesRequestBody) + tools.ignored,
    )


def _input(body: CountRequestBody, tools: ToolSetup) -> ChatInput:
    if body.mcp_servers:
        raise UnsupportedField("mcp_servers: this server runs no MCP tools.", field="mcp_servers")
    messages = read_system(body.system) + read_turns(body.messages)
    continues = _ends_in_prefill(messages)
    return ChatInput(
        messages=messages,
        tools=tools.tools,
        tool_choice=tools.choice,
        parallel_tool_calls=tools.parallel,
        thinking=_thinking(body),
        add_generation_prompt=not continues,
        continue_final=continues,
    )


def _ends_in_prefill(messages: tuple[Message, ...]) -> bool:
    """On this wire an answer continues a final assistant turn, provided that turn ends in text."""
    last = messages[-1]
    return last.role == "assistant" and bool(last.parts) and isinstance(last.parts[-1], TextPart)


def _thinking(body: CountRequestBody) -> Thinking:
    """Off unless asked for, as on this wire; `adaptive` leaves how much to the effort and the model."""
    effort = body.output_config.effort if body.output_config else None
    if effort is not None and effort not in EFFORTS:
        raise InvalidField(
            f"output_config.effort: '{effort}' is not one of {', '.join(EFFORTS)}.", field="output_config.effort"
        )
    wanted = body.thinking
    if wanted is not None and wanted.display not in (None, *DISPLAYS):
        raise InvalidField(
            f"thinking.display: '{wanted.display}' is not one of {', '.join(DISPLAYS)}.", field="thinking.display"
        )
    if wanted is None or wanted.type == "disabled" or effort == "none":
        return Thinking("off", effort)
    if wanted.type in ("adaptive", "between_tools"):
        return Thinking("on", effort)
    if wanted.type != "enabled":
        raise InvalidField(
            f"thinking.type: '{wanted.type}' is not one of enabled, adaptive, between_tools, disabled.",
            field="thinking.type",
        )
    if wanted.budget_tokens is None:
        raise MissingField("thinking.budget_tokens: the field is required.", field="thinking.budget_tokens")
    if wanted.budget_tokens < 1:
        raise InvalidField("thinking.budget_tokens: it must be at least 1.", field="thinking.budget_tokens")
    return Thinking("on", effort, wanted.budget_tokens)


def _sampling(body: MessagesRequestBody) -> SamplingSpec:
    values: dict[str, Any] = {name: _ranged(body, name, *bounds) for name, bounds in _RANGES.items()}
    penalty = _ranged(body, "repetition_penalty", 0, None)
    return SamplingSpec(**values, repetition_penalty=1.0 if penalty == 0 else penalty, seed=_seed(body.seed))


def _ranged(body: MessagesRequestBody, name: str, low: float, high: float | None) -> Any:
    value = getattr(body, name)
    if value is None or (value >= low and (high is None or value <= high)):
        return value
    allowed = f"at least {low}" if high is None else f"between {low} and {high}"
    raise InvalidField(f"{name}: {value} is not {allowed}.", field=name)


def _seed(seed: int | None) -> int | None:
    if seed is None or seed == -1:
        return None
    if not -(_SEEDS >> 1) <= seed < _SEEDS:
        raise InvalidField("seed: it must fit into 64 bits.", field="seed")
    return seed % _SEEDS


def _stop(sequences: list[str] | None) -> tuple[str, ...]:
    if len(sequences or ()) > MAX_STOPS:
        raise InvalidField(f"stop_sequences: at most {MAX_STOPS} are allowed.", field="stop_sequences")
    return tuple(text for text in sequences or () if text)


def _format(body: CountRequestBody) -> OutputFormat | None:
    """`output_config.format`, or `output_format` as its beta spelled it. Raises InvalidRequest when they differ."""
    named: tuple[tuple[str, FormatParam | None], ...] = (
        ("output_config.format", body.output_config.format if body.output_config else None),
        ("output_format", body.output_format),
    )
    return one_format(_schema(wanted, name) for name, wanted in named if wanted is not None)


def _schema(wanted: FormatParam, name: str) -> OutputFormat:
    if wanted.type != "json_schema":
        raise InvalidField(f"{name}.type: '{wanted.type}' is not json_schema.", field=f"{name}.type")
    if wanted.schema is None:
        raise MissingField(f"{name}.schema: the field is required.", field=f"{name}.schema")
    return OutputFormat("json_schema", schema_text(wanted.schema), f"{name}.schema", strict=True)


def _session(metadata: Metadata | None, headers: Mapping[str, str]) -> str | None:
    named = (headers.get(name) for name in _SESSION_HEADERS)
    return next((name for name in named if name), None) or _session_of_user(metadata.user_id if metadata else None)


def _session_of_user(user: str | None) -> str | None:
    """Claude Code puts a JSON object with a session id into the user id."""
    if not user or not user.startswith("{"):
        return user or None
    try:
        value = msgspec.json.decode(user)
    except msgspec.DecodeError:
        return user
    found = cast("dict[str, Any]", value).get("session_id") if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else user
