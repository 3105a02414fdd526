"""Wire structs of Responses requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialects.openai_format import FormatFields


class ReasoningFields(msgspec.Struct, kw_only=True):
    """`reasoning`; `generate_summary` is an old name of `summary`, `context` says whose thoughts stay in the prompt."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    context: str | None = None
    mode: str | None = None


class TextFormat(msgspec.Struct, kw_only=True):
    """`text.format`; the schema stands beside `type` on this wire."""

    type: str
    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None


class TextFields(msgspec.Struct, kw_only=True):
    """`text`."""

    format: TextFormat | None = None
    verbosity: str | None = None


class InputFields(FormatFields, kw_only=True):
    """What makes up the prompt, in a request to answer as in one to count."""

    input: str | list[dict[str, Any]] | None = None
    instructions: str | list[dict[str, Any]] | None = None
    previous_response_id: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningFields | None = None
    text: TextFields | None = None
    truncation: str | None = None
    conversation: Any = None
    personality: str | None = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CreateResponse(InputFields, kw_only=True):
    """Body of POST /v1/responses. Fields without a reader cannot change a local answer."""

    background: bool | None = None
    include: list[str] | None = None
    max_tool_calls: int | None = None
    top_logprobs: int | None = None
    prompt: Any = None
    access_programs: dict[str, Any] | None = None
    background_options: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    client_metadata: dict[str, Any] | None = None


class CountInput(InputFields, kw_only=True):
    """Body of POST /v1/responses/input_tokens."""


class ContentPart(msgspec.Struct, kw_only=True):
    """One part of a message or of a tool's output; which field is needed depends on `type`."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: dict[str, Any] | None = None


class MessageItem(msgspec.Struct, kw_only=True):
    """A message, with or without `type`."""

    role: str
    content: str | list[ContentPart] | None = None


class CallItem(msgspec.Struct, kw_only=True):
    """A function call of an earlier turn; `arguments` is JSON text."""

    name: str
    call_id: str
    arguments: str = "{}"
    namespace: str | None = None


class CustomCallItem(msgspec.Struct, kw_only=True):
    """A call of a custom tool of an earlier turn."""

    name: str
    call_id: str
    input: str = ""
    namespace: str | None = None


class OutputItem(msgspec.Struct, kw_only=True):
    """What a function or custom tool returned."""

    call_id: str
    output: str | list[ContentPart]


class ReasoningItem(msgspec.Struct, kw_only=True):
    """A thought of an earlier turn. Only the signed text in `encrypted_content` is believed."""

    encrypted_content: str | None = None
    summary: list[dict[str, Any]] | None = None
    content: list[dict[str, Any]] | None = None


class FunctionTool(msgspec.Struct, kw_only=True):
    """A function the model may call, flat on this wire."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomFormat(msgspec.Struct, kw_only=True):
    """`format` of a custom tool: text, or a grammar in `lark` or `regex` syntax."""

    type: str = "text"
    syntax: str | None = None
    definition: str | None = None


class CustomTool(msgspec.Struct, kw_only=True):
    """A tool that takes one text."""

    name: str
    description: str | None = None
    format: CustomFormat | None = None


class NamespaceTool(msgspec.Struct, kw_only=True):
    """Tools below a common name."""

    name: str
    tools: list[dict[str, Any]]
    description: str | None = None


class ChosenTool(msgspec.Struct, kw_only=True):
    """A tool named by a choice."""

    type: str
    name: str | None = None
    namespace: str | None = None


class ToolChoiceObject(ChosenTool, kw_only=True):
    """`tool_choice` as an object."""

    mode: str = "auto"
    tools: list[dict[str, Any]] | None = None
