"""The rerank use case: documents scored by a reranker, or by cosine where that was asked for. Knows no wire."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

import numpy as np
from msgspec import Struct

from dragoman.core.errors import ContextLengthExceeded, NotSupported
from dragoman.core.request import RawInput
from dragoman.core.vectors import EmbedRequest, Ranked, Reranked, RerankRequest, RerankWork, Scores
from dragoman.core.vocabulary import Tokenizer
from dragoman.service.embed import embed, longest_input
from dragoman.service.models import ServedModel

_MARKS = 4
"""Special tokens around query and document, at most: BOS or CLS, one or two between them, one at the end."""


class RerankRules(Struct, frozen=True, kw_only=True):
    """`cosine` lets an embedding model rank by the cosine of query and document."""

    cosine: bool = False


async def rerank(model: ServedModel, request: RerankRequest, rules: RerankRules, workers: Executor) -> Reranked:
    """The documents by relevance. Raises NotSupported for a model that cannot rank, ContextLengthExceeded."""
    able = model.backend.capabilities
    if able.rerank:
        loop = asyncio.get_running_loop()
        work = await loop.run_in_executor(workers, fit_pairs, model, request)
        scores = await model.backend.rerank(work)
    elif able.embeddings and able.pooling != "none" and rules.cosine:
        scores = await _by_cosine(model, request, workers)
    else:
        raise _unable(model)
    order = sorted(range(len(scores.scores)), key=lambda index: -scores.scores[index])
    return Reranked(
        model=model.card.id,
        results=tuple(Ranked(index, scores.scores[index]) for index in order[: request.top_n]),
        prompt_tokens=scores.prompt_tokens,
        cosine=not able.rerank,
    )


def fit_pairs(model: ServedModel, request: RerankRequest) -> RerankWork:
    """Query and documents that fit together into what the model takes. Blocking."""
    limit = longest_input(model)
    tokenizer = model.tokenizer
    room = limit - _MARKS - len(_encode(tokenizer, request.query))
    documents = tuple(
        _fit(tokenizer, document, index, room, limit, request.truncate)
        for index, document in enumerate(request.documents)
    )
    return RerankWork(query=request.query, documents=documents)


def _fit(tokenizer: Tokenizer, document: str, index: int, room: int, limit: int, truncate: int | None) -> str:
    ids = _encode(tokenizer, document)
    most = room if not truncate else min(room, truncate)
    if len(ids) <= most or (truncate is None and len(ids) <= room):
        return document
    if truncate is None or most < 1:
        raise ContextLengthExceeded(limit - room + len(ids), limit, field=f"documents[{index}]")
    return cut_text(tokenizer, document, ids, most)


def cut_text(tokenizer: Tokenizer, text: str, ids: list[int], most: int) -> str:
    """The longest beginning of `text` of about `most` tokens and no more. Where tokens do not spell the text itself
    (lower case vocabularies), lengths are compared by their share of it."""
    end = len(text) * most // len(ids)
    while end and len(_encode(tokenizer, text[:end])) > most:
        end = end * 9 // 10
    while end < len(text) and len(_encode(tokenizer, text[: end + 16])) <= most:
        end += 16
    return text[:end]


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=True)


async def _by_cosine(model: ServedModel, request: RerankRequest, workers: Executor) -> Scores:
    texts = (request.query, *request.documents)
    embedded = await embed(
        model,
        EmbedRequest(inputs=tuple(RawInput((text,)) for text in texts), truncate=request.truncate),
        workers,
    )
    query, *documents = (np.frombuffer(rows[0], "<f4").astype(np.float64) for rows in embedded.vectors)
    return Scores(scores=tuple(float(query @ document) for document in documents), prompt_tokens=embedded.prompt_tokens)


def _unable(model: ServedModel) -> NotSupported:
    able = model.backend.capabilities
    remedy = "Serve a reranker model"
    if able.embeddings and able.pooling != "none":
        remedy += ", or start the server with --rerank-cosine to rank by the cosine of embeddings"
    return NotSupported(f"'{model.card.id}' cannot rerank.", remedy=f"{remedy}.")
