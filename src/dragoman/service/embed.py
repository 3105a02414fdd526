"""The embeddings use case: texts checked, tokenised, cut; vectors cut and normalised. Knows no wire and no engine."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from dragoman.core.errors import ContextLengthExceeded, EngineFailure, InvalidField, InvalidRequest, NotSupported
from dragoman.core.model import Capabilities
from dragoman.core.request import RawInput
from dragoman.core.vectors import Embedded, EmbedRequest, EmbedWork, Vector
from dragoman.core.vocabulary import Tokenizer
from dragoman.service.models import ServedModel

_NUMBERS = np.dtype("<f4")
_MAX_ABS = 32760.0
"""Where `norm` 0 puts the largest number: the 16-bit range, as llama.cpp has it."""


async def embed(model: ServedModel, request: EmbedRequest, workers: Executor) -> Embedded:
    """Vectors of all inputs, in order. `workers` run tokenising and arithmetic off the event loop. Raises NotSupported
    for a model without embeddings, ContextLengthExceeded for an input that is too long, InvalidField."""
    require_embeddings(model)
    _check_dimensions(request, model.card.embedding_length)
    if request.pooled and model.backend.capabilities.pooling == "none":
        raise InvalidRequest(
            "Pooling type 'none' is not OAI compatible. Please use a different pooling type", remedy="See --pooling."
        )
    loop = asyncio.get_running_loop()
    ids = await loop.run_in_executor(workers, encode, model, request)
    raw = await model.backend.embed(EmbedWork(inputs=ids))
    pooled = model.backend.capabilities.pooling != "none"
    vectors = await loop.run_in_executor(workers, finish, raw, request, pooled)
    return Embedded(model=model.card.id, vectors=vectors, prompt_tokens=sum(map(len, ids)))


def require_embeddings(model: ServedModel) -> None:
    """Raises NotSupported in llama-server's own words, whose flag is ours too."""
    if not model.backend.capabilities.embeddings:
        raise NotSupported("This server does not support embeddings. Start it with `--embeddings`")


def longest_input(model: ServedModel) -> int:
    """Tokens one input may have."""
    able: Capabilities = model.backend.capabilities
    return able.embedding_tokens or model.backend.context_length


def encode(model: ServedModel, request: EmbedRequest) -> tuple[tuple[int, ...], ...]:
    """Ids of all inputs, each within the model's limit. Blocking."""
    limit = longest_input(model)
    wanted = min(limit, request.truncate or limit)
    return tuple(
        _fit(model, item, index, limit, None if request.truncate is None else wanted)
        for index, item in enumerate(_instructed(item, request.instruction) for item in request.inputs)
    )


def _instructed(item: RawInput, instruction: str | None) -> RawInput:
    """The query format of Qwen3-Embedding (its model card); token ids are taken to have it already."""
    if not instruction or not item.pieces or not isinstance(item.pieces[0], str):
        return item
    first = f"Instruct: {instruction}\nQuery:{item.pieces[0]}"
    return RawInput((first, *item.pieces[1:]), item.add_special, item.parse_special)


def _fit(model: ServedModel, item: RawInput, index: int, limit: int, cut: int | None) -> tuple[int, ...]:
    ids = model.builder.build(item).ids
    if not ids:
        # llama-server's own words.
        raise InvalidField("Input content cannot be empty", field=f"input[{index}]")
    if cut is not None and len(ids) > cut:
        return cut_ids(ids, cut, model.tokenizer, text=isinstance(item.pieces[-1], str))
    if len(ids) > limit:
        raise ContextLengthExceeded(len(ids), limit, field=f"input[{index}]")
    return ids


def cut_ids(ids: tuple[int, ...], limit: int, tokenizer: Tokenizer, *, text: bool) -> tuple[int, ...]:
    """The first `limit` ids; what the vocabulary puts after a text (EOS, SEP) takes the place of the last ones."""
    tail = tail_of(tokenizer) if text else ()
    if not tail or ids[-len(tail) :] != tail or limit <= len(tail):
        return ids[:limit]
    return ids[: limit - len(tail)] + tail


def tail_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids the vocabulary puts after a text by itself."""
    plain = tokenizer.encode("a", add_special=False, parse_special=False)
    around = tokenizer.encode("a", add_special=True, parse_special=False)
    for start in range(len(around) - len(plain) + 1):
        if around[start : start + len(plain)] == plain:
            return tuple(around[start + len(plain) :])
    return ()


def finish(raw: tuple[tuple[Vector, ...], ...], request: EmbedRequest, pooled: bool) -> tuple[tuple[Vector, ...], ...]:
    """Cut and normalised vectors; those of single tokens keep their length, as in llama-server. Blocking."""
    norm = request.norm if pooled else -1
    return tuple(tuple(_finish(vector, request, norm) for vector in rows) for rows in raw)


def _finish(vector: Vector, request: EmbedRequest, norm: int) -> Vector:
    numbers = np.frombuffer(vector, _NUMBERS)
    if not np.isfinite(numbers).all():
        raise EngineFailure("The engine computed an embedding that is not a number.")
    if request.dimensions is not None:
        _check_dimensions(request, numbers.size)
        numbers = numbers[: request.dimensions]
    return normalised(numbers, norm).astype(_NUMBERS).tobytes()


def normalised(numbers: NDArray[np.float32], norm: int) -> NDArray[np.float64]:
    """`numbers` scaled as `EmbedRequest.norm` says, summed up in double precision; a zero vector stays zero."""
    wide = numbers.astype(np.float64)
    size = _size(np.abs(wide), norm)
    return wide / size if size > 0 else wide


def _size(magnitudes: NDArray[np.float64], norm: int) -> float:
    if norm < 0:
        return 1.0
    if norm == 0:
        return float(magnitudes.max(initial=0.0)) / _MAX_ABS
    largest = float(magnitudes.max(initial=0.0))
    # Scaled first: high powers of large numbers would overflow.
    return largest * float(np.sum((magnitudes / largest) ** norm) ** (1.0 / norm)) if largest else 0.0


def _check_dimensions(request: EmbedRequest, width: int) -> None:
    wanted = request.dimensions
    if wanted is not None and not 1 <= wanted <= (width or wanted):
        raise InvalidField(f"This model's embeddings have 1 to {width} dimensions, not {wanted}.", field="dimensions")
