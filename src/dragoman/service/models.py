"""The models this server has, by every name they answer to. Loads nothing and looks nothing up on the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from dragoman.backend.base import Backend
from dragoman.core.errors import ModelNotFound, ModelNotLoaded
from dragoman.core.model import ModelCard
from dragoman.core.names import NamedModel
from dragoman.core.operations import ModelState
from dragoman.core.vocabulary import Tokenizer
from dragoman.prompt.builder import PromptBuilder
from dragoman.service.compiler import GrammarCompiler


class ServedModel(Struct, frozen=True, kw_only=True):
    """A loaded model and its stations. `compiler` None: nothing is known that could hold answers to a form."""

    card: ModelCard
    tokenizer: Tokenizer
    builder: PromptBuilder
    backend: Backend
    compiler: GrammarCompiler | None = None

    @property
    def state(self) -> ModelState:
        """The card with what the engine is doing now."""
        stats = self.backend.stats()
        return ModelState(self.card, busy=stats.running, waiting=stats.waiting)


class ModelRoster:
    """Finds a served model by name.

    With one model and without `strict`, any name means that model, since most clients insist on sending one of
    their own; otherwise an unknown name is a ModelNotFound. `given` finds what a name means that a client gave; one for
    a model that is not served is a ModelNotLoaded.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        *,
        strict: bool = False,
        given: Callable[[str], NamedModel | None] = lambda _: None,
    ) -> None:
        self._given = given
        self._models = tuple(models)
        self._lenient = len(self._models) == 1 and not strict
        self._by_name = {name.casefold(): model for model in reversed(self._models) for name in names_of(model.card)}

    def __iter__(self):
        return iter(self._models)

    @property
    def default(self) -> ServedModel:
        """The model meant when none is named."""
        return self._models[0]

    def for_request(self, name: str | None) -> ServedModel:
        """The model a generation request means."""
        if not name:
            return self.default
        found = self.named(name) or self._meant(name)
        if found is None and not self._lenient:
            raise ModelNotFound(name, self.default.card.id)
        return found or self.default

    def named(self, name: str) -> ServedModel | None:
        """The model that has this name of its own."""
        return self._by_name.get(name.casefold())

    def _meant(self, name: str) -> ServedModel | None:
        given = self._given(name)
        if given is None:
            return None
        found = self.named(given.base)
        if found is None:
            raise ModelNotLoaded(name, given.base, self.default.card.id)
        return found

    def lookup(self, name: str | None) -> ServedModel:
        """The model of exactly this name, for clients that ask what exists."""
        if name is None:
            return self.default
        found = self._by_name.get(name.casefold())
        if found is None:
            raise ModelNotFound(name, self.default.card.id)
        return found

    def stats(self) -> dict[str, dict[str, float]]:
        """Backend counters per model id."""
        return {model.card.id: msgspec.structs.asdict(model.backend.stats()) for model in self._models}


def names_of(card: ModelCard) -> set[str]:
    """Every name a model answers to, in its own spelling."""
    names = {card.id, *card.aliases}
    names |= {name.rsplit("/", 1)[-1] for name in names}
    return names | {f"{name}:latest" for name in names if ":" not in name}
