"""Wire structs of Messages requests. Shapes only: what values mean is decided where they are read.

Fields that change nothing here, such as `cache_control`, stand in the structs all the same where clients send them, so
that they have the right type and are not reported as unknown.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class CacheControl(msgspec.Struct, kw_only=True):
    """A breakpoint of Anthropic's prompt cache. Here every prefix is cached."""

    type: Literal["ephemeral"]
    ttl: str | None = None


class Source(msgspec.Struct, kw_only=True):
    """`source` of an image or document; which field is needed depends on `type`."""

    type: str
    data: str | None = None
    media_type: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: str | list[Block] | None = None


class ToolChange(msgspec.Struct, kw_only=True):
    """The tool that a block of a system message adds or removes."""

    type: str
    name: str | None = None
    tool_name: str | None = None


class Citations(msgspec.Struct, kw_only=True):
    """Whether answers are to quote a document."""

    enabled: bool | None = None


class Block(msgspec.Struct, kw_only=True):
    """One content block; which fields are needed depends on `type`."""

    type: str
    text: str | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None
    citations: Citations | list[Any] | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None
    tool_name: str | None = None
    tool: ToolChange | None = None
    cache_control: CacheControl | None = None


class TurnOutput(msgspec.Struct, kw_only=True):
    """`output_config` of a system message."""

    effort: str | None = None


class MessageParam(msgspec.Struct, kw_only=True):
    """One turn. `clear_at` and `output_config` belong to system messages."""

    role: str
    content: str | list[Block] | None = None
    clear_at: Literal["next_user_message", "never"] | None = None
    output_config: TurnOutput | None = None


class ToolParam(msgspec.Struct, kw_only=True):
    """A tool. Without `type`, or with `custom`, it is the client's own; of others some are run by the client too."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    input_examples: list[dict[str, Any]] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    enable_zoom: bool | None = None


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
    """`output_config`. A task budget is a hint to Anthropic's own models."""

    effort: str | None = None
    format: FormatParam | None = None
    task_budget: dict[str, Any] | None = None


class Metadata(msgspec.Struct, kw_only=True):
    """`metadata`."""

    user_id: str | None = None


class Amount(msgspec.Struct, kw_only=True):
    """A number of what `type` says."""

    type: str
    value: int | None = None


class EditParam(msgspec.Struct, kw_only=True):
    """One edit of a conversation; which fields count depends on `type`."""

    type: str
    keep: str | Amount | None = None
    trigger: Amount | None = None
    clear_at_least: Amount | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None


class ContextManagement(msgspec.Struct, kw_only=True):
    """`context_management`."""

    edits: list[EditParam] | None = None


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
    cache_control: CacheControl | None = None
    context_management: ContextManagement | None = None
    compaction: dict[str, Any] | None = None
    thread: dict[str, Any] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    speed: Literal["standard", "fast"] | None = None
    betas: list[str] | None = None


class MessagesRequestBody(CountRequestBody, kw_only=True):
    """Body of POST /v1/messages. The fields after `user_profile_id` are common extensions of local servers."""

    max_tokens: int
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    inference_geo: str | None = None
    container: str | dict[str, Any] | None = None
    diagnostics: dict[str, Any] | None = None
    fallbacks: Any = None
    billing_policy: Any = None
    user_profile_id: str | None = None
    min_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
