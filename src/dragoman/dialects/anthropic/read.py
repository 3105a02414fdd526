"""Messages requests -> core. Runs nothing and knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.operations import CountRequest
from dragoman.core.request import CacheHints, ChatInput, OutputFormat, Request
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.anthropic.compat import agent_of
from dragoman.dialects.anthropic.edits import EditPlan, read_edits
from dragoman.dialects.anthropic.errors import ThreadsUnsupported
from dragoman.dialects.anthropic.messages import Conversation, read_conversation
from dragoman.dialects.anthropic.schema import CountRequestBody, FormatParam, MessagesRequestBody, Metadata
from dragoman.dialects.anthropic.thinking import check_budget, read_thinking
from dragoman.dialects.anthropic.tools import ToolSetup, read_tools
from dragoman.dialects.anthropic.write import MessageWriter, ReplyRules, write_count, write_edited_count
from dragoman.dialects.base import GenerateCall, SmallCall, WireRequest
from dragoman.dialects.constraint import one_format, schema_text
from dragoman.dialects.decoding import convert, decode_object, unknown_fields

MAX_STOPS = 64

_SEEDS = 1 << 64
_INT_MAX = (1 << 31) - 1
_FINE_GRAINED = "fine-grained-tool-streaming-"
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


class _Base(Struct, frozen=True):
    """What a request and a count have in common, read once."""

    body: CountRequestBody
    conversation: Conversation
    tools: ToolSetup
    edits: EditPlan

    @property
    def ignored(self) -> tuple[str, ...]:
        """Paths of what only Anthropic could do."""
        config = self.body.output_config
        hints = {
            "mcp_servers": bool(self.body.mcp_servers),
            "output_config.task_budget": config is not None and config.task_budget is not None,
        }
        return self.tools.ignored + self.conversation.ignored + tuple(name for name, given in hints.items() if given)

    def chat(self) -> ChatInput:
        """The conversation with everything that shapes its prompt."""
        config = self.body.output_config
        effort = self.conversation.effort or (config.effort if config else None)
        continues = self.conversation.continues
        return ChatInput(
            messages=self.conversation.messages,
            tools=self.tools.tools,
            tool_choice=self.tools.choice,
            parallel_tool_calls=self.tools.parallel,
            thinking=read_thinking(self.body.thinking, effort, self.edits.keeps_thoughts),
            add_generation_prompt=not continues,
            continue_final=continues,
        )


def read_messages(wire: WireRequest) -> GenerateCall:
    """POST /v1/messages. Raises InvalidRequest and its kin naming the field."""
    value = decode_object(wire.body)
    body = convert(value, MessagesRequestBody)
    if body.max_tokens < 1:
        raise InvalidField("max_tokens: it must be at least 1.", field="max_tokens")
    check_budget(body.thinking, body.max_tokens, wire.headers)
    base = _base(body)
    request = Request(
        input=base.chat(),
        model=body.model,
        sampling=_sampling(body),
        max_tokens=body.max_tokens,
        stop=_stop(body.stop_sequences),
        format=_format(body),
        cache=CacheHints(session=_session(body.metadata, wire.headers)),
        edits=base.edits.edits,
    )
    rules = ReplyRules(
        max_tokens=body.max_tokens,
        omit_thinking=body.thinking is not None and body.thinking.display == "omitted",
        report_edits=body.context_management is not None,
        partial_strings=_FINE_GRAINED in wire.headers.get("anthropic-beta", ""),
    )
    return GenerateCall(
        requests=(request,),
        stream=body.stream is True,
        writer=lambda context: MessageWriter(context, rules),
        ignored=unknown_fields(value, MessagesRequestBody) + base.ignored,
        agent=agent_of(wire.headers),
    )


def read_count(wire: WireRequest) -> SmallCall:
    """POST /v1/messages/count_tokens. Fields that only matter for generating are accepted and unused."""
    value = decode_object(wire.body)
    body = convert(value, CountRequestBody)
    base = _base(body)
    request = Request(input=base.chat(), model=body.model, format=_format(body), edits=base.edits.edits)
    return SmallCall(
        request=CountRequest(request),
        write=write_count if body.context_management is None else write_edited_count,
        ignored=unknown_fields(value, MessagesRequestBody) + base.ignored,
    )


def _base(body: CountRequestBody) -> _Base:
    if body.thread is not None:
        raise ThreadsUnsupported
    if body.compaction is not None:
        raise UnsupportedField("compaction: this server compacts no conversations.", field="compaction")
    tools = read_tools(body.tools, body.tool_choice)
    return _Base(body, read_conversation(body.system, body.messages), tools, read_edits(body.context_management))


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
