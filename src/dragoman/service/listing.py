"""Which models there are: those served, names clients gave, and those on disk that are not loaded. Loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import ModelNotFound
from dragoman.core.model import ModelCard
from dragoman.core.names import NamedModel, plain_name
from dragoman.core.operations import ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.service.models import ModelRoster, names_of


class Listing(Struct, frozen=True, kw_only=True):
    """What is known at one moment. `defaults` are the server's, over those of the models; `shelved` are on disk and
    not loaded, and shown by their own names; `stored` are those that given names may mean; `expiries` say by id until
    when, in Unix seconds, clients wanted a model loaded."""

    roster: ModelRoster
    defaults: SamplingSpec
    shelved: Sequence[ModelCard] = ()
    named: Sequence[NamedModel] = ()
    stored: Sequence[ModelCard] = ()
    expiries: Mapping[str, float] = {}

    def states(self) -> tuple[ModelState, ...]:
        """Served models first, then given names, then the rest of the shelf."""
        served = [self._in_force(model.state) for model in self.roster]
        taken = {name.casefold() for state in served for name in names_of(state.card)}
        paths = {state.card.path for state in served}
        others = (card for card in self.shelved if card.path not in paths and card.id.casefold() not in taken)
        return (*served, *self._given(), *(ModelState(card, loaded=False) for card in others))

    def find(self, name: str | None) -> ModelState:
        """The model of exactly this name, a served one first. Raises ModelNotFound."""
        try:
            return self._in_force(self.roster.lookup(name).state)
        except ModelNotFound:
            wanted = plain_name(name or "")
            for state in self._given():
                if plain_name(state.card.id) == wanted:
                    return state
            for card in self.shelved:
                if wanted in {plain_name(known) for known in names_of(card)}:
                    return ModelState(card, loaded=False)
            raise

    def _given(self) -> Iterator[ModelState]:
        """Names whose model is here, each with the card of that model under this name."""
        for named in self.named:
            served = self.roster.named(named.base)
            state = self._in_force(served.state) if served else self._on_shelf(named.base)
            if state is not None:
                settings = named.settings
                card = replace(
                    state.card,
                    id=named.name,
                    aliases=(),
                    created=named.created,
                    chat_template=settings.template or state.card.chat_template,
                    sampling_defaults=settings.sampling.over(state.card.sampling_defaults),
                )
                yield replace(state, card=card, named=named)

    def _on_shelf(self, base: str) -> ModelState | None:
        wanted = base.casefold()
        found = (card for card in self.stored if wanted in {name.casefold() for name in names_of(card)})
        return next((ModelState(card, loaded=False) for card in found), None)

    def _in_force(self, state: ModelState) -> ModelState:
        card = state.card
        card = replace(card, sampling_defaults=self.defaults.over(card.sampling_defaults))
        return replace(state, card=card, expires=self.expiries.get(card.id))
