"""The route table of llama-server's native wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from dragoman.dialects.base import Call, Dialect, Endpoint, WireRequest
from dragoman.dialects.llamacpp.chats import read_control, read_count
from dragoman.dialects.llamacpp.errors import error_reply
from dragoman.dialects.llamacpp.infill import read_infill
from dragoman.dialects.llamacpp.lora import read_adapters, read_scales
from dragoman.dialects.llamacpp.props import read_health, read_props, read_props_change
from dragoman.dialects.llamacpp.read import read_completion
from dragoman.dialects.llamacpp.refusals import read_audio, read_disabled, read_router
from dragoman.dialects.llamacpp.schema import (
    CompletionBody,
    DetokenizeBody,
    EmbeddingBody,
    InfillBody,
    RerankBody,
    TemplateBody,
    TokenizeBody,
)
from dragoman.dialects.llamacpp.slots import read_slot_action, read_slots
from dragoman.dialects.llamacpp.streams import read_drop, read_lookup, read_resume
from dragoman.dialects.llamacpp.template import read_template
from dragoman.dialects.llamacpp.tokens import JSON, read_detokenize, read_tokenize
from dragoman.dialects.llamacpp.vectors import read_embedding, read_rerank

_COMPLETE = "Complete a prompt (llama-server)"
_HEALTH = "Whether the server can answer"
_COUNT = "Count the prompt tokens of a chat completion (llama-server)"
_SWITCHED_OFF = "Not served here (llama-server)"
_ROUTER = "Not served here (llama-server's router mode)"

Method = Literal["GET", "POST", "DELETE", "HEAD"]


def _row(
    method: Method,
    path: str,
    summary: str,
    read: Callable[[WireRequest], Call],
    body: type[Any] | None = None,
    *,
    public: bool = False,
    status: int = 200,
) -> Endpoint:
    return Endpoint(method=method, path=path, summary=summary, read=read, body=body, public=public, status=status)


DIALECT = Dialect(
    name="llamacpp",
    endpoints=(
        _row("POST", "/completion", _COMPLETE, read_completion, CompletionBody),
        _row("POST", "/completions", _COMPLETE, read_completion, CompletionBody),
        _row("POST", "/infill", "Fill a gap in code (llama-server)", read_infill, InfillBody),
        _row("POST", "/tokenize", "Text to token ids", read_tokenize, TokenizeBody),
        _row("POST", "/detokenize", "Token ids to text", read_detokenize, DetokenizeBody),
        _row("POST", "/apply-template", "Render a conversation to its prompt", read_template, TemplateBody),
        *(
            _row("POST", path, "Vectors of texts (llama-server)", read_embedding, EmbeddingBody)
            for path in ("/embedding", "/embeddings")
        ),
        *(
            _row("POST", path, "Documents by relevance to a query (llama-server)", read_rerank, RerankBody)
            for path in ("/rerank", "/reranking")
        ),
        _row("GET", "/health", _HEALTH, read_health, public=True),
        _row("GET", "/v1/health", _HEALTH, read_health, public=True),
        _row("GET", "/props", "The model and its default settings", read_props),
        _row("POST", "/props", "Accepted, changes nothing (llama-server)", read_props_change),
        _row("GET", "/slots", "What each slot of the engine holds and does", read_slots),
        _row("POST", "/slots/{id_slot}", "Save, restore or erase a slot", read_slot_action),
        _row("GET", "/lora-adapters", "The mounted LoRA adapters", read_adapters),
        _row("POST", "/lora-adapters", "Scales of requests that choose no adapters", read_scales),
        _row("POST", "/v1/chat/completions/control", "End the thought of a running answer", read_control),
        *(
            _row("POST", f"{prefix}/chat/completions/input_tokens", _COUNT, read_count, TemplateBody)
            for prefix in ("/v1", "")
        ),
        _row("GET", "/v1/stream", "The rest of a stream that was named by X-Conversation-Id", read_resume),
        _row("DELETE", "/v1/stream", "Cancel a stream that was named by X-Conversation-Id", read_drop, status=204),
        _row("POST", "/v1/streams/lookup", "Which streams are kept", read_lookup),
        *(
            _row(method, path, _SWITCHED_OFF, read_disabled)
            for path in ("/tools", "/cors-proxy")
            for method in ("GET", "POST")
        ),
        *(_row("POST", f"{prefix}/audio/transcriptions", _SWITCHED_OFF, read_audio) for prefix in ("/v1", "")),
        _row("POST", "/models", _ROUTER, read_router),
        _row("DELETE", "/models", _ROUTER, read_router),
        _row("POST", "/models/load", _ROUTER, read_router),
        _row("POST", "/models/unload", _ROUTER, read_router),
    ),
    error=error_reply,
    prefixes=("/",),
    request_id_prefix="cmpl-",
    content_type=JSON,
)
