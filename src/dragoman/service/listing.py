"""Which models there are: those served, and those on disk that are not loaded. Loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.core.errors import ModelNotFound
from dragoman.core.model import ModelCard
from dragoman.core.operations import ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.service.models import ModelRoster, names_of


def all_states(roster: ModelRoster, shelved: Sequence[ModelCard], defaults: SamplingSpec) -> tuple[ModelState, ...]:
    """Served models first, their sampling defaults under those of the server."""
    served = [_in_force(model.state, defaults) for model in roster]
    taken = {name.casefold() for state in served for name in names_of(state.card)}
    paths = {state.card.path for state in served}
    others = (card for card in shelved if card.path not in paths and card.id.casefold() not in taken)
    return (*served, *(ModelState(card, loaded=False) for card in others))


def find_state(
    roster: ModelRoster, name: str | None, shelved: Sequence[ModelCard], defaults: SamplingSpec
) -> ModelState:
    """The model of exactly this name, a served one first. Raises ModelNotFound."""
    try:
        return _in_force(roster.lookup(name).state, defaults)
    except ModelNotFound:
        wanted = (name or "").casefold()
        for card in shelved:
            if wanted in {known.casefold() for known in names_of(card)}:
                return ModelState(card, loaded=False)
        raise


def _in_force(state: ModelState, defaults: SamplingSpec) -> ModelState:
    card = state.card
    return replace(state, card=replace(card, sampling_defaults=defaults.over(card.sampling_defaults)))
