"""Served models -> the OpenAI model object and list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from dragoman.core.model import ModelCard
from dragoman.core.operations import ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.openai_models.schema import (
    ModelCapabilities,
    ModelList,
    ModelMeta,
    ModelObject,
    ModelStatus,
    SingleModel,
)

OWNER = "dragoman"


def write_models(states: tuple[ModelState, ...]) -> bytes:
    """The list, in the order given."""
    data = [model_object(state) for state in states]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return msgspec.json.encode(ModelList(data=data, first_id=first, last_id=last))


def write_model(state: ModelState) -> bytes:
    """One model, with `data` holding it again."""
    model = model_object(state)
    return msgspec.json.encode(SingleModel(**msgspec.structs.asdict(model), data=[model]))


def model_object(state: ModelState) -> ModelObject:
    """One entry of the list."""
    card = state.card
    return ModelObject(
        id=card.id,
        created=card.created,
        owned_by=OWNER,
        aliases=list(card.aliases),
        context_length=card.context_length,
        max_model_len=card.context_length,
        capabilities=ModelCapabilities(
            chat_completions=bool(card.chat_template) and card.generation,
            text_completions=card.generation,
            tools=card.tools,
            reasoning=card.thinking,
            streaming=card.generation,
            embeddings=card.embeddings,
            rerank=card.rerank,
        ),
        quantization=card.quantization or None,
        meta=_meta(card),
        display_name=card.id,
        created_at=datetime.fromtimestamp(card.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=card.context_length,
        status=ModelStatus("loaded" if state.loaded else "unloaded"),
        generation_defaults=_defaults(card.sampling_defaults),
    )


def _defaults(sampling: SamplingSpec) -> dict[str, Any]:
    found = msgspec.structs.asdict(sampling)
    return {name: found[name] for name in found if found[name] is not None}


def _meta(card: ModelCard) -> ModelMeta:
    return ModelMeta(
        n_vocab=card.vocab_size,
        n_ctx=card.context_length,
        n_ctx_train=card.trained_context,
        n_embd=card.embedding_length,
        n_params=card.parameters,
        size=card.size_bytes,
    )
