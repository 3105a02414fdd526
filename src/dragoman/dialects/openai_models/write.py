"""Served models -> the OpenAI model object and list."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from dragoman.core.model import ModelCard
from dragoman.core.operations import ModelState
from dragoman.dialects.openai_models.schema import (
    ModelCapabilities,
    ModelList,
    ModelMeta,
    ModelObject,
    SingleModel,
)

OWNER = "dragoman"


def write_models(states: tuple[ModelState, ...]) -> bytes:
    """The list, in the order given."""
    data = [model_object(state.card) for state in states]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return msgspec.json.encode(ModelList(data=data, first_id=first, last_id=last))


def write_model(state: ModelState) -> bytes:
    """One model, with `data` holding it again."""
    model = model_object(state.card)
    return msgspec.json.encode(SingleModel(**msgspec.structs.asdict(model), data=[model]))


def model_object(card: ModelCard) -> ModelObject:
    """One entry of the list."""
    return ModelObject(
        id=card.id,
        created=card.created,
        owned_by=OWNER,
        aliases=list(card.aliases),
        context_length=card.context_length,
        max_model_len=card.context_length,
        capabilities=ModelCapabilities(
            chat_completions=bool(card.chat_template),
            text_completions=True,
            tools=card.tools,
            reasoning=card.thinking,
            streaming=True,
        ),
        quantization=card.quantization or None,
        meta=_meta(card),
        display_name=card.id,
        created_at=datetime.fromtimestamp(card.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=card.context_length,
    )


def _meta(card: ModelCard) -> ModelMeta:
    return ModelMeta(
        n_vocab=card.vocab_size,
        n_ctx=card.context_length,
        n_ctx_train=card.trained_context,
        n_embd=card.embedding_length,
        n_params=card.parameters,
        size=card.size_bytes,
    )
