"""/tokenize and /detokenize: bodies to core requests and results to bodies. Holds no vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from dragoman.core.operations import Detokenized, DetokenizeRequest, Tokenized, TokenizeRequest
from dragoman.core.request import RawInput
from dragoman.dialects.base import SmallCall, StaticCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_or_empty
from dragoman.dialects.llamacpp.casts import to_int32
from dragoman.dialects.llamacpp.errors import NativeError, wrong_type
from dragoman.dialects.llamacpp.prompts import pieces_of
from dragoman.dialects.llamacpp.schema import DetokenizeBody, TokenizeBody

JSON = "application/json; charset=utf-8"

_encode = msgspec.json.encode


def read_tokenize(wire: WireRequest) -> SmallCall | StaticCall:
    """POST /tokenize. A wrong type of `content` escapes llama-server's parsing block, hence status 500."""
    body = decode_or_empty(wire.body)
    if "content" not in body:
        return StaticCall(body=b'{"tokens":[]}', content_type=JSON)
    content = body["content"]
    if isinstance(content, list):
        pieces = pieces_of(cast("list[object]", content), status=500)
    elif isinstance(content, str):
        pieces = (content,)
    else:
        raise NativeError(wrong_type("string", content), status=500, field="content")
    text = RawInput(
        pieces,
        add_special=flag(body, "add_special", default=False),
        parse_special=flag(body, "parse_special", default=True),
    )
    return SmallCall(
        request=TokenizeRequest(text, model=model_name(body)),
        write=_write_pieces if flag(body, "with_pieces", default=False) else _write_tokens,
        ignored=_unknown(body, TokenizeBody),
    )


def read_detokenize(wire: WireRequest) -> SmallCall | StaticCall:
    """POST /detokenize."""
    body = decode_or_empty(wire.body)
    if "tokens" not in body:
        return StaticCall(body=b'{"content":""}', content_type=JSON)
    tokens = body["tokens"]
    if not isinstance(tokens, list):
        raise NativeError(wrong_type("array", tokens), status=500, field="tokens")
    ids = tuple(_token(token) for token in cast("list[object]", tokens))
    return SmallCall(
        request=DetokenizeRequest(ids, model=model_name(body)),
        write=_write_text,
        ignored=_unknown(body, DetokenizeBody),
    )


def flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A lenient boolean: any other type counts as absent."""
    value = body.get(name)
    return value if isinstance(value, bool) else default


def model_name(body: Mapping[str, Any]) -> str | None:
    """The model a request names; a name that is no string counts as absent."""
    value = body.get("model")
    return value if isinstance(value, str) else None


def _token(token: object) -> int:
    if not isinstance(token, int | float):
        raise NativeError(wrong_type("number", token), status=500, field="tokens")
    return to_int32(token)


def _write_tokens(result: Tokenized) -> bytes:
    return _encode({"tokens": result.ids})


def _write_pieces(result: Tokenized) -> bytes:
    pieces = zip(result.ids, result.pieces, strict=True)
    return _encode({"tokens": [{"id": token, "piece": _piece(raw)} for token, raw in pieces]})


def _piece(raw: bytes) -> str | list[int]:
    """Text, or byte values where the bytes alone are not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


def _write_text(result: Detokenized) -> bytes:
    return _encode({"content": result.text})


def _unknown(body: Mapping[str, Any], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(sorted(set(body) - set(kind.__struct_encode_fields__)))
