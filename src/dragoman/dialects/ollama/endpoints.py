"""The route table of Ollama's wire."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.ollama.embed import read_embed, read_old_embed
from dragoman.dialects.ollama.errors import error_reply
from dragoman.dialects.ollama.models import JSON, read_running, read_show, read_tags, read_version
from dragoman.dialects.ollama.read import read_chat, read_generate
from dragoman.dialects.ollama.schema import ChatBody, EmbedBody, GenerateBody, OldEmbedBody, ShowBody

DIALECT = Dialect(
    name="ollama",
    endpoints=(
        Endpoint(method="POST", path="/api/chat", summary="Chat (Ollama)", read=read_chat, body=ChatBody),
        Endpoint(
            method="POST", path="/api/generate", summary="Generate (Ollama)", read=read_generate, body=GenerateBody
        ),
        Endpoint(method="POST", path="/api/embed", summary="Vectors of texts", read=read_embed, body=EmbedBody),
        Endpoint(
            method="POST",
            path="/api/embeddings",
            summary="Vector of one text (superseded by /api/embed)",
            read=read_old_embed,
            body=OldEmbedBody,
        ),
        Endpoint(method="POST", path="/api/show", summary="One model in detail", read=read_show, body=ShowBody),
        Endpoint(method="GET", path="/api/tags", summary="Models that are here", read=read_tags),
        Endpoint(method="GET", path="/api/ps", summary="Models that are loaded", read=read_running),
        Endpoint(method="GET", path="/api/version", summary="The Ollama version spoken", read=read_version),
    ),
    error=error_reply,
    stream_type="application/x-ndjson",
    prefixes=("/api",),
    content_type=JSON,
)
