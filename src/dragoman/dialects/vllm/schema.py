"""vLLM's bodies as msgspec types."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class TurnBody(Struct, kw_only=True):
    """One message of a conversation, in the roles and shapes of Chat Completions."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class TokenizeBody(Struct, kw_only=True):
    """Body of POST /tokenize: a `prompt`, or `messages` with what shapes their prompt."""

    model: str | None = None
    prompt: str | None = None
    messages: list[TurnBody] | None = None
    tools: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None


class TokenizeReply(Struct, kw_only=True):
    """Ids of a prompt, and their spellings where they were asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeBody(Struct, kw_only=True):
    """Body of POST /detokenize."""

    tokens: list[int]
    model: str | None = None


class DetokenizeReply(Struct, kw_only=True):
    """Text of ids."""

    prompt: str


class LoadAdapterBody(Struct, kw_only=True):
    """Body of POST /v1/load_lora_adapter."""

    lora_name: str | None = None
    lora_path: str | None = None
    load_inplace: bool | None = None
    base_model_name: str | None = None


class UnloadAdapterBody(Struct, kw_only=True):
    """Body of POST /v1/unload_lora_adapter."""

    lora_name: str | None = None
    lora_int_id: int | None = None
