"""POST /infill: a gap in code to a core request. Knows no vocabulary and no model's markers."""

from __future__ import annotations

from typing import Any, cast

from dragoman.core.errors import NotSupported
from dragoman.core.request import InfillInput, RawInput
from dragoman.dialects.base import GenerateCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_object
from dragoman.dialects.llamacpp.errors import NativeError, wrong_type
from dragoman.dialects.llamacpp.prompts import read_prompts
from dragoman.dialects.llamacpp.read import card_for, generation
from dragoman.dialects.llamacpp.schema import KNOWN

_KNOWN = KNOWN | {"input_prefix", "input_suffix", "input_extra"}
_BATCH = 2048
"""Tokens: llama-server's n_batch, from which it measures how much of the code around the gap is used."""


def read_infill(wire: WireRequest) -> GenerateCall:
    """A completion of what is between `input_prefix` and `input_suffix`, with other files in `input_extra`. Raises
    NotSupported, before the body is looked at, for a model that cannot."""
    served = wire.card_of(None) if wire.card_of is not None else None
    if served is not None and served.no_infill:
        raise NotSupported(served.no_infill)
    body = decode_object(wire.body)
    prefix, suffix = _text(body, "input_prefix"), _text(body, "input_suffix")
    extra = _extra(body.get("input_extra"))
    prompt = body.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise NativeError('"prompt" must be a string', field="prompt")
    card = card_for(wire, body)
    infill = InfillInput(
        prefix=prefix,
        suffix=suffix,
        prompt=read_prompts(prompt)[0] if prompt else RawInput(()),
        extra=extra,
        batch=_BATCH,
        spare=max(0, card.context_length - _BATCH) if card is not None else 0,
    )
    return generation(body, [infill], card, _KNOWN)


def _text(body: dict[str, Any], name: str) -> str:
    if name not in body:
        # It escapes llama-server's parsing block.
        raise NativeError(f"[json.exception.out_of_range.403] key '{name}' not found", status=500, field=name)
    value = body[name]
    if not isinstance(value, str):
        raise NativeError(wrong_type("string", value), status=500, field=name)
    return value


def _extra(value: object) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise NativeError('"input_extra" must be an array of {"filename": string, "text": string}', field="input_extra")
    return tuple(_chunk(item) for item in cast("list[object]", value))


def _chunk(item: object) -> tuple[str, str]:
    fields = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    text, name = fields.get("text"), fields.get("filename", "tmp")
    if not isinstance(text, str):
        raise NativeError('extra_context chunk must contain a "text" field with a string value', field="input_extra")
    if not isinstance(name, str):
        raise NativeError(
            'extra_context chunk must contain a "filename" field with a string value', field="input_extra"
        )
    return name, text
