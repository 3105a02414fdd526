"""Whether and how a GGUF model is served for embeddings or reranking, and what that takes. Starts nothing."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.app.context import kv_bytes_per_token
from dragoman.catalog.gguf import GgufHeader
from dragoman.catalog.local import LocalModel
from dragoman.config import EngineSettings
from dragoman.core.errors import EngineFailure
from dragoman.core.vectors import Pooling
from dragoman.engines.mlx.embed.layout import EmbedLayout

_POOLINGS: tuple[Pooling, ...] = ("none", "mean", "cls", "last", "rank")
"""In the order of llama.cpp's `<architecture>.pooling_type`."""

_ENCODERS = frozenset(
    {
        "bert",
        "eurobert",
        "gemma-embedding",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
    }
)
"""Architectures without a decoder: they generate nothing, whatever the file says of pooling."""

_MOST_TOKENS = 2048
"""The whole input is one physical batch, whose buffers grow with its square; larger only when --ctx says so."""

_MEMORY_SHARE = 0.9


class EmbeddingPlan(Struct, frozen=True, kw_only=True):
    """`pooling` '' for none at all; `encodes` that the model does nothing else; `context` tokens of one input."""

    pooling: Pooling | Literal[""] = ""
    encodes: bool = False
    context: int = 0


def plan_embeddings(model: LocalModel, engine: EngineSettings) -> EmbeddingPlan:
    """How llama.cpp serves `model` for embeddings. Raises EngineFailure for `--pooling rank` on a model without a head
    for it, whose scores would be whatever happens to be in memory."""
    header = model.header
    own = _own_pooling(header) if header else ""
    encodes = bool(own) or model.architecture in _ENCODERS
    told = engine.pooling if engine.pooling != "auto" else ""
    if not (encodes or told or engine.embeddings):
        return EmbeddingPlan()
    pooling: Pooling = told or own or "mean"
    if pooling == "rank" and header is not None and not _ranks(header):
        raise EngineFailure(f"'{model.id}' has no head for --pooling rank, so it cannot rerank.")
    trained = model.trained_context or _MOST_TOKENS
    most = trained if pooling == "last" and model.architecture not in _ENCODERS else min(trained, _MOST_TOKENS)
    return EmbeddingPlan(pooling=pooling, encodes=encodes, context=min(engine.ctx or most, trained))


def mlx_pooling(model: LocalModel, layout: EmbedLayout, engine: EngineSettings) -> Pooling | Literal["", "no"]:
    """How MLX serves a checkpoint for embeddings: `no` when it does not, '' for what its files say. Raises
    EngineFailure for a text model that should do both."""
    told = engine.pooling if engine.pooling != "auto" else ""
    if layout.embeds or told:
        return told
    if engine.embeddings:
        raise EngineFailure(
            f"MLX serves '{model.id}' for text or for embeddings, not for both.",
            remedy="Use --pooling last (or mean) to serve embeddings alone, or a GGUF of the model with llama.cpp.",
        )
    return "no"


def check_memory(model: LocalModel, plan: EmbeddingPlan, context: int, engine: EngineSettings, memory: int) -> None:
    """Raises EngineFailure when a second engine, for the embeddings of a text model, would not fit beside the first.
    The weights count twice: only where they are mapped from the file do the two share them."""
    if not plan.pooling or plan.encodes:
        return
    own, second = (kv_bytes_per_token(model.header, bits) if model.header else 0 for bits in (engine.kv_bits, 0))
    needed = 2 * model.size_bytes + engine.max_lanes * (own * context + second * plan.context)
    if needed > _MEMORY_SHARE * memory:
        raise EngineFailure(
            f"Embeddings need a second engine for '{model.id}'; together they take {needed / 2**30:.1f} GiB of this "
            f"machine's {memory / 2**30:.1f}.",
            remedy="Leave --embeddings out, lower --ctx or --max-lanes, or serve an embedding model instead.",
        )


def _own_pooling(header: GgufHeader) -> Pooling | Literal[""]:
    number = header.metadata.get(f"{header.architecture}.pooling_type")
    if not isinstance(number, int) or not 0 <= number < len(_POOLINGS):
        return ""
    return _POOLINGS[number]


def _ranks(header: GgufHeader) -> bool:
    return any(tensor.name.startswith("cls") for tensor in header.tensors)
