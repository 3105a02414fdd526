"""/embedding, /embeddings and /rerank: bodies to core requests and results to bodies. Computes nothing."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import msgspec

from dragoman.core.errors import NotSupported
from dragoman.core.model import ModelCard
from dragoman.core.vectors import Embedded, EmbedRequest, Reranked, RerankRequest, unpack
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_object
from dragoman.dialects.llamacpp.casts import to_int32
from dragoman.dialects.llamacpp.errors import NativeError, wrong_type
from dragoman.dialects.llamacpp.prompts import read_prompts
from dragoman.dialects.llamacpp.schema import EmbeddingBody, RerankBody
from dragoman.dialects.llamacpp.tokens import flag, model_name

_encode = msgspec.json.encode

MOST_DOCUMENTS = 4096
_UNIT_LENGTH = 2


def read_embedding(wire: WireRequest) -> SmallCall:
    """POST /embedding and /embeddings. `encoding_format` is checked and has no effect, as in llama-server."""
    body = decode_object(wire.body)
    card = _card(wire, body)
    if card is not None and not card.embeddings:
        # Told before the body is looked at.
        raise NotSupported("This server does not support embeddings. Start it with `--embeddings`")
    name = "input" if "input" in body else "content"
    if name not in body:
        raise NativeError('"input" or "content" must be provided', field="input")
    if isinstance(body[name], list) and not body[name]:
        # It escapes llama-server's parsing block.
        raise NativeError('"prompt" must not be empty', status=500, field=name)
    inputs = read_prompts(body[name])
    _check_encoding(body.get("encoding_format", "float"))
    request = EmbedRequest(inputs=inputs, model=model_name(body), norm=_norm(body), pooled=False)
    return SmallCall(request=request, write=write_embeddings, ignored=_unknown(body, EmbeddingBody))


def write_embeddings(result: Embedded) -> bytes:
    """A bare array; each entry has all vectors of its input, one where the model pools."""
    rows = enumerate(result.vectors)
    return _encode([{"index": index, "embedding": [unpack(vector) for vector in vectors]} for index, vectors in rows])


def read_rerank(wire: WireRequest) -> SmallCall:
    """POST /rerank and /reranking. `texts` instead of `documents` asks for the answer of
    text-embeddings-inference."""
    body = decode_object(wire.body)
    card, plain = _card(wire, body), "texts" in body
    if card is not None and not (card.rerank or card.embeddings):
        raise NotSupported(f"'{card.id}' cannot rerank.", remedy="Serve a reranker model.")
    if "query" not in body:
        raise NativeError('"query" must be provided', field="query")
    if not isinstance(body["query"], str):
        raise NativeError('"query" must be a string', field="query")
    documents = _documents(body.get("texts" if plain else "documents"))
    request = RerankRequest(
        query=body["query"], documents=documents, model=model_name(body), top_n=_top_n(body, len(documents))
    )
    returned = documents if flag(body, "return_text", default=False) else None
    write = partial(_write_texts, returned) if plain else _write_results
    return SmallCall(request=request, write=write, ignored=_unknown(body, RerankBody))


def _card(wire: WireRequest, body: dict[str, Any]) -> ModelCard | None:
    return wire.card_of(model_name(body)) if wire.card_of is not None else None


def _check_encoding(encoding: object) -> None:
    if not isinstance(encoding, str):
        raise NativeError(wrong_type("string", encoding), status=500, field="encoding_format")
    if encoding not in ("float", "base64"):
        message = "The format to return the embeddings in. Can be either float or base64"
        raise NativeError(message, field="encoding_format")


def _norm(body: dict[str, Any]) -> int:
    value = body.get("embd_normalize", _UNIT_LENGTH)
    if not isinstance(value, int | float):
        raise NativeError(wrong_type("number", value), status=500, field="embd_normalize")
    return max(-1, to_int32(value))


def _documents(value: object) -> tuple[str, ...]:
    documents = cast("list[object]", value) if isinstance(value, list) else []
    if not documents or not all(isinstance(document, str) for document in documents):
        raise NativeError('"documents" must be a non-empty string array', field="documents")
    if len(documents) > MOST_DOCUMENTS:
        raise NativeError(f'"documents" may hold at most {MOST_DOCUMENTS} documents', field="documents")
    return cast("tuple[str, ...]", tuple(documents))


def _top_n(body: dict[str, Any], most: int) -> int:
    value = body.get("top_n", most)
    if not isinstance(value, int | float):
        raise NativeError(wrong_type("number", value), status=500, field="top_n")
    return max(0, to_int32(value))


def _write_results(result: Reranked) -> bytes:
    tokens = result.prompt_tokens
    return _encode(
        {
            "model": result.model,
            "object": "list",
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "results": [{"index": ranked.index, "relevance_score": ranked.score} for ranked in result.results],
        }
    )


def _write_texts(texts: tuple[str, ...] | None, result: Reranked) -> bytes:
    return _encode(
        [
            {"index": ranked.index, "score": ranked.score, **({} if texts is None else {"text": texts[ranked.index]})}
            for ranked in result.results
        ]
    )


def _unknown(body: dict[str, Any], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(sorted(set(body) - set(kind.__struct_encode_fields__)))
