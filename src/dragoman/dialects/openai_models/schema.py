"""Wire structs of the model list.

One entry serves three kinds of clients: OpenAI's (id, object, created, owned_by), vLLM's and mlx-lm's
(max_model_len, the added `data`), and Anthropic's, whose SDK reads the same path (type, display_name, created_at).
"""

from __future__ import annotations

from typing import Any

import msgspec


class ModelCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a client can ask of the model."""

    chat_completions: bool
    text_completions: bool
    tools: bool
    reasoning: bool
    streaming: bool
    embeddings: bool
    rerank: bool


class ModelMeta(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers about the checkpoint, under llama-server's names: lengths in tokens, `size` in bytes."""

    n_vocab: int
    n_ctx: int
    n_ctx_train: int
    n_embd: int
    n_params: int
    size: int


class ModelStatus(msgspec.Struct, frozen=True):
    """Whether the model is in memory: `loaded` or `unloaded`, in llama-server's words."""

    value: str


class ModelObject(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `context_length` is the effective window of one request, in tokens, or what the checkpoint was trained
    for when it is not loaded. `generation_defaults` are the sampling values of a request that names none."""

    id: str
    object: str = "model"
    created: int
    owned_by: str
    aliases: list[str]
    context_length: int
    max_model_len: int
    capabilities: ModelCapabilities
    quantization: str | None
    meta: ModelMeta
    type: str = "model"
    display_name: str
    created_at: str
    max_input_tokens: int
    lifecycle: str = "active"
    status: ModelStatus
    generation_defaults: dict[str, Any]


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All models, the served ones first; there is never a second page."""

    object: str = "list"
    data: list[ModelObject]
    has_more: bool = False
    first_id: str | None
    last_id: str | None


class SingleModel(ModelObject, frozen=True, kw_only=True):
    """One model asked for by name, with the one-entry list that mlx-lm clients look for."""

    data: list[ModelObject]
