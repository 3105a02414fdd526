"""The model list in Anthropic's shape, for clients that say whose API they speak."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.model import ModelCard
from dragoman.core.operations import ModelRequest, ModelsRequest, ModelState
from dragoman.dialects.anthropic.edits import CLEAR_THINKING, CLEAR_TOOL_USES
from dragoman.dialects.anthropic.paging import PageQuery, page_of, read_page
from dragoman.dialects.anthropic.stamp import stamp
from dragoman.dialects.base import SmallCall, WireRequest

_HEADERS = "anthropic-"


class Support(msgspec.Struct, frozen=True):
    """Whether something can be done."""

    supported: bool


class EditSupport(msgspec.Struct, frozen=True, rename={"thinking": CLEAR_THINKING, "tool_uses": CLEAR_TOOL_USES}):
    """Which edits of a conversation can be made."""

    supported: bool
    thinking: Support
    tool_uses: Support
    compact_20260112: Support


class EffortSupport(msgspec.Struct, frozen=True):
    """Which efforts can be asked for."""

    supported: bool
    low: Support
    medium: Support
    high: Support
    xhigh: Support
    max: Support


class ThinkingTypes(msgspec.Struct, frozen=True):
    """Which ways of thinking can be asked for."""

    adaptive: Support
    between_tools: Support
    disabled: Support
    enabled: Support


class ThinkingSupport(msgspec.Struct, frozen=True):
    """Whether the model thinks."""

    supported: bool
    types: ThinkingTypes


class ServerToolSupport(msgspec.Struct, frozen=True):
    """Which tools run at the server."""

    supported: bool
    code_execution: Support
    web_search: Support


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked of a model on this wire."""

    batch: Support
    citations: Support
    code_execution: Support
    context_management: EditSupport
    effort: EffortSupport
    image_input: Support
    pdf_input: Support
    server_tools: ServerToolSupport
    structured_outputs: Support
    thinking: ThinkingSupport


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="model"):
    """One model. `max_input_tokens` is the effective window of one request, which prompt and answer share."""

    id: str
    display_name: str
    created_at: str
    lifecycle: str = "active"
    max_input_tokens: int
    max_tokens: int
    capabilities: Abilities


def speaks_anthropic(headers: Mapping[str, str]) -> bool:
    """Whether a client asks as Anthropic's own do, who always name the version of the API."""
    return any(name.startswith(_HEADERS) for name in headers)


def read_models(wire: WireRequest) -> SmallCall:
    """GET /v1/models."""
    query = read_page(wire.query)
    return SmallCall(request=ModelsRequest(shelved=True), write=lambda states: write_models(states, query))


def read_model(wire: WireRequest) -> SmallCall:
    """GET /v1/models/{id}; an id may contain slashes."""
    return SmallCall(request=ModelRequest(wire.params["id"], shelved=True), write=write_model)


def write_models(states: tuple[ModelState, ...], query: PageQuery) -> bytes:
    """One page of the models. Raises InvalidField for a cursor that is none of them."""
    infos = [model_info(state.card) for state in states]
    ids = [info.id for info in infos]
    start, end, more = _span(ids, query)
    return msgspec.json.encode(page_of(infos[start:end], ids[start:end], more))


def write_model(state: ModelState) -> bytes:
    """One model."""
    return msgspec.json.encode(model_info(state.card))


def model_info(card: ModelCard) -> ModelInfo:
    """One model as this wire has it."""
    yes, no = Support(True), Support(False)
    says, thinks = Support(card.generation), Support(card.thinking)
    return ModelInfo(
        id=card.id,
        display_name=card.id,
        created_at=stamp(card.created),
        max_input_tokens=card.context_length,
        max_tokens=card.context_length,
        capabilities=Abilities(
            batch=says,
            citations=no,
            code_execution=no,
            context_management=EditSupport(says.supported, thinks, says, no),
            effort=EffortSupport(thinks.supported, thinks, thinks, thinks, thinks, thinks),
            image_input=no,
            pdf_input=no,
            server_tools=ServerToolSupport(False, no, no),
            structured_outputs=says,
            thinking=ThinkingSupport(thinks.supported, ThinkingTypes(thinks, thinks, yes, thinks)),
        ),
    )


def _span(ids: list[str], query: PageQuery) -> tuple[int, int, bool]:
    """The page as a slice, and whether there are more beyond it in the direction asked for."""
    if query.before_id is not None:
        end = _place(ids, query.before_id, "before_id")
        start = max(0, end - query.limit)
        return start, end, start > 0
    start = 0 if query.after_id is None else _place(ids, query.after_id, "after_id") + 1
    end = min(len(ids), start + query.limit)
    return start, end, end < len(ids)


def _place(ids: list[str], id: str, field: str) -> int:
    if id not in ids:
        raise InvalidField(f"{field}: there is no model '{id[:80]}' to list from.", field=field)
    return ids.index(id)
