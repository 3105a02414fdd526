"""The route table of vLLM's extras. /tokenize and /detokenize are shared with llama-server: the keys of a body tell
whose it is."""

from __future__ import annotations

import msgspec

from dragoman.core.operations import HealthRequest, Version, VersionRequest
from dragoman.dialects.base import Dialect, Endpoint, SmallCall, WireRequest
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error
from dragoman.dialects.vllm.lora import read_load, read_unload
from dragoman.dialects.vllm.schema import (
    DetokenizeBody,
    DetokenizeReply,
    LoadAdapterBody,
    TokenizeBody,
    TokenizeReply,
    UnloadAdapterBody,
)
from dragoman.dialects.vllm.tokens import read_detokenize, read_tokenize, read_tokenizer_info


def read_version(wire: WireRequest) -> SmallCall:
    """GET /version: that of this server."""
    return SmallCall(request=VersionRequest(), write=_write_version)


def read_ping(wire: WireRequest) -> SmallCall:
    """GET and POST /ping, which inference hosts ask: 200 without a body when the server can answer."""
    return SmallCall(request=HealthRequest(), write=lambda _: b"")


def _write_version(version: Version) -> bytes:
    return msgspec.json.encode({"version": version.version})


DIALECT = Dialect(
    name="vllm",
    endpoints=(
        Endpoint(
            method="POST",
            path="/tokenize",
            summary="Text or a conversation to token ids (vLLM).",
            read=read_tokenize,
            body=TokenizeBody,
            answer=TokenizeReply,
            keys=(frozenset({"prompt"}), frozenset({"messages"})),
        ),
        Endpoint(
            method="POST",
            path="/detokenize",
            summary="Token ids to text (vLLM).",
            read=read_detokenize,
            body=DetokenizeBody,
            answer=DetokenizeReply,
            keys=(frozenset({"tokens", "model"}),),
        ),
        Endpoint(
            method="GET", path="/tokenizer_info", summary="The tokenizer's settings (vLLM).", read=read_tokenizer_info
        ),
        Endpoint(method="GET", path="/version", summary="The version of this server (vLLM).", read=read_version),
        *(
            Endpoint(method=method, path="/ping", summary="Whether the server can answer.", read=read_ping, public=True)
            for method in ("GET", "POST")
        ),
        Endpoint(
            method="POST",
            path="/v1/load_lora_adapter",
            summary="Mount a LoRA adapter (vLLM).",
            read=read_load,
            body=LoadAdapterBody,
            content_type="text/plain; charset=utf-8",
        ),
        Endpoint(
            method="POST",
            path="/v1/unload_lora_adapter",
            summary="Take a LoRA adapter away (vLLM).",
            read=read_unload,
            body=UnloadAdapterBody,
            content_type="text/plain; charset=utf-8",
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/tokenizer_info"),
)
