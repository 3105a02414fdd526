"""Ollama's bodies of requests for answers as msgspec types. Every field may be null, which means absent."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Function(Struct, kw_only=True):
    """The function of a tool, or of a call, where `arguments` is an object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    arguments: dict[str, Any] | None = None


class ToolBody(Struct, kw_only=True):
    """A tool the model may call."""

    function: Function
    type: str | None = "function"


class CallBody(Struct, kw_only=True):
    """A call the assistant made."""

    function: Function
    id: str | None = None


class MessageBody(Struct, kw_only=True):
    """One turn. `images` are base64 without a data: prefix; `tool_name` names the tool a result came from."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[CallBody] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class AnswerBody(Struct, kw_only=True):
    """What chat and generate have in common. `keep_alive` is told again by /api/ps and unloads nothing."""

    model: str | None = None
    stream: bool | None = None
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    keep_alive: float | str | None = None
    truncate: bool | None = None
    shift: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class ChatBody(AnswerBody, kw_only=True):
    """Body of POST /api/chat."""

    messages: list[MessageBody] | None = None
    tools: list[ToolBody] | None = None


class GenerateBody(AnswerBody, kw_only=True):
    """Body of POST /api/generate."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[str] | None = None


class ShowBody(Struct, kw_only=True):
    """Body of POST /api/show. `name` is the older spelling of `model`."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


class EmbedBody(Struct, kw_only=True):
    """Body of POST /api/embed."""

    model: str | None = None
    input: str | list[str] | None = None
    truncate: bool | None = None
    dimensions: int | None = None
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None


class OldEmbedBody(Struct, kw_only=True):
    """Body of POST /api/embeddings."""

    model: str | None = None
    prompt: str | None = None
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None
