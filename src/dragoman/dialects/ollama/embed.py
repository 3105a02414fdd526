"""Ollama's /api/embed and the older /api/embeddings: bodies to core requests and results to bodies."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.operations import CountRequest
from dragoman.core.request import RawInput, Request
from dragoman.core.vectors import Embedded, EmbedRequest, unpack
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import unknown_fields
from dragoman.dialects.ollama.body import decode_body
from dragoman.dialects.ollama.keep import read_keep_alive
from dragoman.dialects.ollama.schema import EmbedBody, OldEmbedBody

MAX_INPUTS = 2048

_encode = msgspec.json.encode


def read_embed(wire: WireRequest) -> SmallCall:
    """POST /api/embed. No input only asks for the model to be loaded. Too long inputs are cut unless `truncate` is
    false, as Ollama does."""
    fields, body = decode_body(wire, EmbedBody)
    if body.input is None or body.input == []:
        return _load(fields, body, {"model": body.model, "embeddings": []})
    texts = [body.input] if isinstance(body.input, str) else body.input
    if len(texts) > MAX_INPUTS:
        raise InvalidField(f"at most {MAX_INPUTS} inputs are allowed", field="input")
    if body.dimensions is not None and body.dimensions < 0:
        raise InvalidField("dimensions must not be negative", field="dimensions")
    request = EmbedRequest(
        inputs=tuple(RawInput((text,)) for text in texts),
        model=body.model,
        dimensions=body.dimensions or None,
        truncate=None if body.truncate is False else 0,
    )
    write = partial(_write_embed, body.model or "", time.perf_counter_ns())
    return _embedding(request, write, fields, body)


def read_old_embed(wire: WireRequest) -> SmallCall:
    """POST /api/embeddings: one prompt, the vector as computed. An empty prompt only asks for the model to load."""
    fields, body = decode_body(wire, OldEmbedBody)
    if not body.prompt:
        return _load(fields, body, {"embedding": []})
    request = EmbedRequest(inputs=(RawInput((body.prompt,)),), model=body.model, norm=-1, truncate=0)
    return _embedding(request, _write_old, fields, body)


def _embedding(
    request: EmbedRequest, write: Callable[[Embedded], bytes], fields: dict[str, Any], body: EmbedBody | OldEmbedBody
) -> SmallCall:
    return SmallCall(
        request=request,
        write=write,
        ignored=_ignored(fields, body),
        keep_alive=read_keep_alive(body.keep_alive),
        model=body.model,
    )


def _load(fields: dict[str, Any], body: EmbedBody | OldEmbedBody, answer: dict[str, Any]) -> SmallCall:
    """Counting nothing resolves the model's name exactly as an embedding would."""
    nothing = Request(input=RawInput(("",)), model=body.model)
    return SmallCall(
        request=CountRequest(nothing),
        write=lambda _: _encode(answer),
        ignored=unknown_fields(fields, type(body)),
        keep_alive=read_keep_alive(body.keep_alive),
        model=body.model,
    )


def _ignored(fields: dict[str, Any], body: EmbedBody | OldEmbedBody) -> tuple[str, ...]:
    """Options shape sampling or the loading of a model, neither of which happens here."""
    given = tuple(f"options.{name}" for name, value in (body.options or {}).items() if value is not None)
    return (*unknown_fields(fields, type(body)), *sorted(given))


def _write_embed(model: str, began: int, result: Embedded) -> bytes:
    return _encode(
        {
            "model": model,
            "embeddings": [unpack(vectors[0]) for vectors in result.vectors],
            "total_duration": time.perf_counter_ns() - began,
            "load_duration": 0,
            "prompt_eval_count": result.prompt_tokens,
        }
    )


def _write_old(result: Embedded) -> bytes:
    return _encode({"embedding": unpack(result.vectors[0][0])})
