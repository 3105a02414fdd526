"""Rerank requests -> core, and results back. Runs nothing and knows no model."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.vectors import Reranked, RerankRequest
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.rerank.schema import RerankBody
from dragoman.dialects.rerank_fields import read_documents, read_query, read_top_n, with_document

_encode = msgspec.json.encode


def read_rerank(wire: WireRequest) -> SmallCall:
    """POST /v1/rerank and /v1/reranking. Raises InvalidRequest and its kin naming the field."""
    value = decode_object(wire.body)
    body = convert(value, RerankBody)
    plain = body.documents is None and body.texts is not None
    query = read_query(body.query)
    documents = read_documents(body.texts, "texts") if plain else read_documents(body.documents)
    request = RerankRequest(
        query=query,
        documents=documents,
        model=body.model,
        top_n=read_top_n(body.top_n),
        truncate=_truncate(body),
    )
    if plain:
        write = partial(write_texts, documents if body.return_text else None)
    else:
        write = partial(write_results, documents if body.return_documents else None)
    return SmallCall(request=request, write=write, ignored=unknown_fields(value, RerankBody))


def write_results(documents: tuple[str, ...] | None, result: Reranked) -> bytes:
    """Jina's answer, keys in llama-server's order; scores as the model gives them."""
    tokens = result.prompt_tokens
    results: list[dict[str, Any]] = [
        with_document({"index": ranked.index, "relevance_score": ranked.score}, documents) for ranked in result.results
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return _encode({"model": result.model, "object": "list", "usage": usage, "results": results})


def write_texts(texts: tuple[str, ...] | None, result: Reranked) -> bytes:
    """The answer of text-embeddings-inference."""
    return _encode(
        [
            {"index": ranked.index, "score": ranked.score, **({} if texts is None else {"text": texts[ranked.index]})}
            for ranked in result.results
        ]
    )


def _truncate(body: RerankBody) -> int | None:
    tokens = body.max_tokens_per_doc
    if tokens is None:
        return 0 if body.truncation else None
    if tokens < 1:
        name = "max_tokens_per_doc"
        raise InvalidField(f"Invalid '{name}': {tokens} is below the minimum of 1.", field=name)
    return tokens
