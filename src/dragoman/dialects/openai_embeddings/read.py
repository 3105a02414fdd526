"""Embeddings requests -> core. Runs nothing and knows no model."""

from __future__ import annotations

from typing import cast

from dragoman.core.errors import InvalidField, MissingField
from dragoman.core.request import RawInput
from dragoman.core.vectors import EmbedRequest
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.openai_embeddings.schema import EmbeddingsRequest, Inputs
from dragoman.dialects.openai_embeddings.write import write_base64, write_floats, write_native

MAX_INPUTS = 2048
"""Inputs of one request; OpenAI's own limit."""

_LEAST_NORM = -1
_MOST_NORM = 100


def read_embeddings(wire: WireRequest) -> SmallCall:
    """POST /v1/embeddings. Raises InvalidRequest and its kin naming the field."""
    value = decode_object(wire.body)
    body = convert(value, EmbeddingsRequest)
    name = "content" if body.input is None and body.content is not None else "input"
    inputs = read_inputs(body.content if name == "content" else body.input, name)
    native = name == "content"
    request = EmbedRequest(
        inputs=tuple(RawInput((piece,)) for piece in inputs),
        model=body.model,
        dimensions=_dimensions(body.dimensions),
        norm=_norm(body.embd_normalize),
        truncate=_truncate(body),
        instruction=body.instruction or None,
        pooled=not native,
    )
    base64 = read_base64(body.encoding_format)
    write = write_native if native else write_base64 if base64 else write_floats
    return SmallCall(request=request, write=write, ignored=unknown_fields(value, EmbeddingsRequest))


def read_base64(encoding: str | None) -> bool:
    """Whether vectors are wanted as base64; the default is floats, as OpenAI documents. Raises InvalidField."""
    if encoding not in (None, "float", "base64"):
        # llama-server's own words.
        message = "The format to return the embeddings in. Can be either float or base64"
        raise InvalidField(message, field="encoding_format")
    return encoding == "base64"


def read_inputs(value: Inputs | None, name: str) -> tuple[str | tuple[int, ...], ...]:
    """One text, one list of token ids, or a list of either. Raises MissingField or InvalidField naming the entry."""
    if value is None:
        # llama-server's own words.
        raise MissingField('"input" or "content" must be provided', field=name)
    if isinstance(value, str):
        return (value,)
    if not value:
        raise InvalidField(f"Invalid '{name}': at least one input is required.", field=name)
    if isinstance(value[0], int):
        return (_ids(cast("list[object]", value), name),)
    if len(value) > MAX_INPUTS:
        raise InvalidField(f"Invalid '{name}': at most {MAX_INPUTS} inputs are allowed.", field=name)
    return tuple(_piece(entry, f"{name}[{index}]") for index, entry in enumerate(value))


def _piece(entry: str | int | list[int], at: str) -> str | tuple[int, ...]:
    if isinstance(entry, int):
        raise InvalidField(f"Invalid '{at}': token ids and texts cannot be mixed.", field=at)
    return entry if isinstance(entry, str) else _ids(cast("list[object]", entry), at)


def _ids(entry: list[object], at: str) -> tuple[int, ...]:
    if not entry:
        raise InvalidField(f"Invalid '{at}': at least one token id is required.", field=at)
    for index, token in enumerate(entry):
        if not isinstance(token, int) or token < 0:
            raise InvalidField(f"Invalid '{at}[{index}]': it is not a token id.", field=f"{at}[{index}]")
    return cast("tuple[int, ...]", tuple(entry))


def _dimensions(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InvalidField(f"Invalid 'dimensions': {value} is below the minimum of 1.", field="dimensions")
    return value


def _norm(value: int | None) -> int:
    if value is None:
        return 2
    if not _LEAST_NORM <= value <= _MOST_NORM:
        bounds = f"{_LEAST_NORM} and {_MOST_NORM}"
        raise InvalidField(f"Invalid 'embd_normalize': {value} is not between {bounds}.", field="embd_normalize")
    return value


def _truncate(body: EmbeddingsRequest) -> int | None:
    """vLLM writes -1 for the model's own limit."""
    tokens = body.truncate_prompt_tokens
    if tokens is None:
        return 0 if body.truncate else None
    if tokens == -1:
        return 0
    if tokens < 1:
        name = "truncate_prompt_tokens"
        raise InvalidField(f"Invalid '{name}': {tokens} is neither -1 nor at least 1.", field=name)
    return tokens
