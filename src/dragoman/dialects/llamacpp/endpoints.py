"""The route table of llama-server's native wire."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.llamacpp.errors import error_reply
from dragoman.dialects.llamacpp.props import read_health, read_props
from dragoman.dialects.llamacpp.read import read_completion
from dragoman.dialects.llamacpp.schema import CompletionBody, DetokenizeBody, TemplateBody, TokenizeBody
from dragoman.dialects.llamacpp.template import read_template
from dragoman.dialects.llamacpp.tokens import JSON, read_detokenize, read_tokenize

DIALECT = Dialect(
    name="llamacpp",
    endpoints=(
        Endpoint(
            method="POST",
            path="/completion",
            summary="Complete a prompt (llama-server)",
            read=read_completion,
            body=CompletionBody,
        ),
        Endpoint(
            method="POST",
            path="/completions",
            summary="Complete a prompt (llama-server)",
            read=read_completion,
            body=CompletionBody,
        ),
        Endpoint(method="POST", path="/tokenize", summary="Text to token ids", read=read_tokenize, body=TokenizeBody),
        Endpoint(
            method="POST", path="/detokenize", summary="Token ids to text", read=read_detokenize, body=DetokenizeBody
        ),
        Endpoint(
            method="POST",
            path="/apply-template",
            summary="Render a conversation to its prompt",
            read=read_template,
            body=TemplateBody,
        ),
        Endpoint(method="GET", path="/health", summary="Whether the server can answer", read=read_health, public=True),
        Endpoint(
            method="GET", path="/v1/health", summary="Whether the server can answer", read=read_health, public=True
        ),
        Endpoint(method="GET", path="/props", summary="The model and its default settings", read=read_props),
    ),
    error=error_reply,
    prefixes=("/",),
    request_id_prefix="cmpl-",
    content_type=JSON,
)
