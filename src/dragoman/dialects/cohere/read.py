"""Cohere's rerank requests -> core, and results back. Runs nothing and knows no model."""

from __future__ import annotations

import math
import uuid
from functools import partial
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.vectors import Reranked, RerankRequest
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.cohere.schema import CohereRerankBody
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.rerank_fields import read_documents, read_query, read_top_n, with_document

TOKENS_PER_DOCUMENT = 4096
"""Longer documents are cut, as Cohere documents."""

_DOCUMENTS_PER_UNIT = 100


def read_rerank(wire: WireRequest) -> SmallCall:
    """POST /v2/rerank. Raises InvalidRequest and its kin naming the field."""
    value = decode_object(wire.body)
    body = convert(value, CohereRerankBody)
    query = read_query(body.query)
    documents = read_documents(body.documents)
    tokens = TOKENS_PER_DOCUMENT if body.max_tokens_per_doc is None else body.max_tokens_per_doc
    if tokens < 1:
        name = "max_tokens_per_doc"
        raise InvalidField(f"Invalid '{name}': {tokens} is below the minimum of 1.", field=name)
    request = RerankRequest(
        query=query, documents=documents, model=body.model, top_n=read_top_n(body.top_n), truncate=tokens
    )
    return SmallCall(
        request=request,
        write=partial(write_results, documents, bool(body.return_documents)),
        ignored=unknown_fields(value, CohereRerankBody),
    )


def write_results(documents: tuple[str, ...], returned: bool, result: Reranked) -> bytes:
    """Cohere's answer. Its scores lie between 0 and 1: a head's logit goes through the logistic function; the cosine
    of two embeddings is cut at 0."""
    told = documents if returned else None
    results: list[dict[str, Any]] = [
        with_document({"index": ranked.index, "relevance_score": share(ranked.score, cosine=result.cosine)}, told)
        for ranked in result.results
    ]
    units = math.ceil(len(documents) / _DOCUMENTS_PER_UNIT)
    meta = {
        "api_version": {"version": "2"},
        "billed_units": {"search_units": units},
        "tokens": {"input_tokens": result.prompt_tokens},
    }
    return msgspec.json.encode({"id": str(uuid.uuid4()), "results": results, "meta": meta})


def share(score: float, *, cosine: bool) -> float:
    """A score as a share of 1."""
    if cosine:
        return min(1.0, max(0.0, score))
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))
