"""Wire structs of Messages requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

from typing import Any

import msgspec


class Source(msgspec.Struct, kw_only=True):
    """`source` of an image or document; which field is needed depends on `type`."""

    type: str
    data: str | None = None
    media_type: str | None = None
    url: str | None = None
    content: str | list[Block] | None = None


class Block(msgspec.Struct, kw_only=True):
    """One content block; which fields are needed depends on `type`."""

    type: str
    text: str | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: str | list[Block] | None = None
    is_error: bool | None = None
    tool_name: str | None = None


class MessageParam(msgspec.Struct, kw_only=True):
    """One turn."""

    role: str
    content: str | list[Block]


class ToolParam(msgspec.Struct, kw_only=True):
    """A tool. Without `type`, or with `custom`, it is the client's own; other types run at Anthropic."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoiceParam(msgspec.Struct, kw_only=True):
    """`tool_choice`."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingParam(msgspec.Struct, kw_only=True):
    """`thinking`."""

    type: str
    budget_tokens: int | None = None
    display: str | None = None


class FormatParam(msgspec.Struct, kw_only=True):
    """`output_config.format`."""

    type: str
    schema: dict[str, Any] | None = None


class OutputConfig(msgspec.Struct, kw_only=True):
    """`output_config`."""

    effort: str | None = None
    format: FormatParam | None = None


class Metadata(msgspec.Struct, kw_only=True):
    """`metadata`."""

    user_id: str | None = None


class CountRequestBody(msgspec.Struct, kw_only=True):
    """Body of POST /v1/messages/count_tokens."""

    messages: list[MessageParam]
    model: str | None = None
    system: str | list[Block] | None = None
    tools: list[ToolParam] | None = None
    tool_choice: ToolChoiceParam | None = None
    thinking: ThinkingParam | None = None
    output_config: OutputConfig | None = None
    output_format: FormatParam | None = None
    cache_control: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    speed: str | None = None


class MessagesRequestBody(CountRequestBody, kw_only=True):
    """Body of POST /v1/messages. The fields after `betas` are common extensions of local servers."""

    max_tokens: int
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    container: str | dict[str, Any] | None = None
    diagnostics: dict[str, Any] | None = None
    betas: list[str] | None = None
    min_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
