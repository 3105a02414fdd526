"""Model routes -> core requests. Knows no catalog."""

from __future__ import annotations

from dragoman.core.operations import ModelRequest, ModelsRequest
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.openai_models.write import write_model, write_models


def read_models(wire: WireRequest) -> SmallCall:
    """GET /v1/models. Paging parameters are accepted; everything fits on one page."""
    return SmallCall(request=ModelsRequest(shelved=True), write=write_models)


def read_model(wire: WireRequest) -> SmallCall:
    """GET /v1/models/{id}; an id may contain slashes."""
    return SmallCall(request=ModelRequest(wire.params["id"], shelved=True), write=write_model)
