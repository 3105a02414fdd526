"""Token utilities: tokenise, detokenise, render a chat, count a prompt. All of it runs in worker threads."""

from __future__ import annotations

from dragoman.core.errors import TokenOutOfRange
from dragoman.core.operations import (
    Counted,
    CountRequest,
    Detokenized,
    DetokenizeRequest,
    Rendered,
    RenderRequest,
    Tokenized,
    TokenizeRequest,
)
from dragoman.service.edits import edited
from dragoman.service.models import ServedModel
from dragoman.service.prepare import AnswerLimits, prompt_of


def tokenize(model: ServedModel, request: TokenizeRequest) -> Tokenized:
    """Ids of text exactly as a prompt of the same form would have them."""
    ids = model.builder.build(request.input).ids
    return Tokenized(ids, tuple(map(model.tokenizer.token_bytes, ids)))


def detokenize(model: ServedModel, request: DetokenizeRequest) -> Detokenized:
    """Text of ids, special tokens spelled out. Raises TokenOutOfRange for an id outside the vocabulary."""
    size = model.tokenizer.size
    for token in request.ids:
        if not 0 <= token < size:
            raise TokenOutOfRange(token, size, field="tokens")
    return Detokenized(b"".join(map(model.tokenizer.token_bytes, request.ids)).decode("utf-8", "replace"))


def render(model: ServedModel, request: RenderRequest) -> Rendered:
    """The prompt text of a conversation."""
    return Rendered(model.builder.render(request.input))


def count(model: ServedModel, request: CountRequest, limits: AnswerLimits) -> Counted:
    """Prompt tokens of a request, as generation would count them."""
    shorter = edited(request.request, lambda chat: len(model.builder.build(chat).ids))
    tokens = len(prompt_of(model, shorter.request, limits).ids)
    return Counted(tokens, tokens + shorter.saved)
