"""Wire structs of Chat Completions requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialects.openai_format import FormatFields
from dragoman.dialects.openai_options import OptionFields


class Url(msgspec.Struct, kw_only=True):
    """`{"url": …}` of image, audio and video parts."""

    url: str
    detail: str | None = None


class InputAudio(msgspec.Struct, kw_only=True):
    """`input_audio`: base64 data and a format name (wav, mp3, …)."""

    data: str
    format: str | None = None


class File(msgspec.Struct, kw_only=True):
    """`file`: a data URL, or the id of an uploaded file."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class ContentPart(msgspec.Struct, kw_only=True):
    """One part of a content array; which field is needed depends on `type`."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | Url | None = None
    audio_url: str | Url | None = None
    video_url: str | Url | None = None
    input_audio: InputAudio | None = None
    file: File | None = None


class CalledFunction(msgspec.Struct, kw_only=True):
    """A call in the history. `arguments` is JSON text; some clients send the object itself."""

    name: str
    arguments: str | dict[str, Any] | None = None


class CalledCustom(msgspec.Struct, kw_only=True):
    """A custom tool call in the history."""

    name: str
    input: str = ""


class ToolCall(msgspec.Struct, kw_only=True):
    """One entry of `tool_calls`."""

    id: str | None = None
    type: str | None = None
    function: CalledFunction | None = None
    custom: CalledCustom | None = None


class ChatMessage(msgspec.Struct, kw_only=True):
    """One message; which fields make sense depends on `role`."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = None
    tool_call_id: str | None = None
    audio: dict[str, Any] | None = None


class FunctionDefinition(msgspec.Struct, kw_only=True):
    """A function the model may call."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDefinition(msgspec.Struct, kw_only=True):
    """One entry of `tools`."""

    type: str = "function"
    function: FunctionDefinition | None = None


class FunctionName(msgspec.Struct, kw_only=True):
    """A function named by a choice."""

    name: str


class NamedTool(msgspec.Struct, kw_only=True):
    """A tool named by a choice."""

    type: str = "function"
    function: FunctionName | None = None


class AllowedTools(msgspec.Struct, kw_only=True):
    """`allowed_tools` of a choice."""

    tools: list[NamedTool]
    mode: str = "auto"


class ToolChoiceObject(msgspec.Struct, kw_only=True):
    """`tool_choice` as an object: one named tool, or a set of allowed ones."""

    type: str
    function: FunctionName | None = None
    allowed_tools: AllowedTools | None = None


class ReasoningOptions(msgspec.Struct, kw_only=True):
    """`reasoning` as routers spell it: `max_tokens` is the thinking budget, `exclude` hides thoughts in the reply."""

    effort: str | None = None
    enabled: bool | None = None
    max_tokens: int | None = None
    exclude: bool | None = None
    summary: str | None = None


class ThinkingOptions(msgspec.Struct, kw_only=True):
    """`thinking` as DeepSeek, Z.ai and clients of Anthropic spell it."""

    type: str | None = None
    budget_tokens: int | None = None


class ChatCompletionRequest(FormatFields, kw_only=True):
    """Body of POST /v1/chat/completions."""

    messages: list[ChatMessage]
    tools: list[ToolDefinition] | None = None
    tool_choice: str | ToolChoiceObject | None = None
    functions: list[FunctionDefinition] | None = None
    function_call: str | FunctionName | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    reasoning: ReasoningOptions | None = None
    enable_thinking: bool | None = None
    thinking: ThinkingOptions | None = None
    thinking_budget: int | None = None
    thinking_budget_tokens: int | None = None
    thinking_token_budget: int | None = None
    reasoning_budget: int | None = None
    reasoning_budget_tokens: int | None = None
    reasoning_format: str | None = None
    reasoning_control: bool | None = None
    include_reasoning: bool | None = None
    preserve_thinking: bool | None = None
    timings: bool | None = None
    timings_per_token: bool | None = None
    verbose: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    modalities: list[str] | None = None
    prediction: dict[str, Any] | None = None
    verbosity: str | None = None
    options: OptionFields | None = None
