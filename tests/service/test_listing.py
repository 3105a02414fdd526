"""Models served and models on disk, in one list."""

from __future__ import annotations

import pytest

from dragoman.core.errors import ModelNotFound
from dragoman.core.model import ModelCard
from dragoman.core.names import NamedModel, NameSettings
from dragoman.core.sampling import SamplingSpec
from dragoman.service.listing import Listing
from dragoman.service.models import ModelRoster
from tests.service.served import scripted

DEFAULTS = SamplingSpec(temperature=0.2)


def card(id: str, path: str, *aliases: str) -> ModelCard:
    return ModelCard(id=id, path=path, aliases=aliases, format="gguf", engine="")


@pytest.mark.anyio
async def test_served_models_come_first_and_only_once() -> None:
    async with scripted(id="Served", path="/a", sampling_defaults=SamplingSpec(temperature=0.9, top_k=5)) as model:
        shelf = [card("other", "/b"), card("again", "/a"), card("served", "/c")]
        states = Listing(roster=ModelRoster([model]), shelved=shelf, defaults=DEFAULTS).states()
    assert [(state.card.id, state.loaded) for state in states] == [("Served", True), ("other", False)]
    sampling = states[0].card.sampling_defaults
    assert (sampling.temperature, sampling.top_k) == (0.2, 5)


@pytest.mark.anyio
async def test_a_model_is_found_by_any_of_its_names() -> None:
    async with scripted(id="served", path="/a") as model:
        shelf = [card("repo/other", "/b", "file.gguf"), card("served", "/c")]
        listing = Listing(roster=ModelRoster([model]), shelved=shelf, defaults=DEFAULTS)
        for name, id, loaded in (
            ("served", "served", True),
            (None, "served", True),
            ("repo/other", "repo/other", False),
            ("OTHER", "repo/other", False),
            ("file.gguf", "repo/other", False),
        ):
            found = listing.find(name)
            assert (found.card.id, found.loaded) == (id, loaded)
        with pytest.raises(ModelNotFound):
            listing.find("nobody")


@pytest.mark.anyio
async def test_given_names_are_models_of_their_own() -> None:
    warm = NameSettings(sampling=SamplingSpec(temperature=0.7), template="{{ .Prompt }}")
    named = [
        NamedModel(name="Mine", base="served", created=3, settings=warm),
        NamedModel(name="stored", base="other"),
        NamedModel(name="dangling", base="gone"),
    ]
    async with scripted(id="served", path="/a") as model:
        listing = Listing(
            roster=ModelRoster([model]),
            defaults=DEFAULTS,
            named=named,
            stored=[card("other", "/b")],
            expiries={"served": 5.0},
        )
        states = listing.states()
        assert [(state.card.id, state.loaded, state.named is not None) for state in states] == [
            ("served", True, False),
            ("Mine", True, True),
            ("stored", False, True),
        ]
        mine = listing.find("mine:latest")
        assert (mine.card.sampling_defaults.temperature, mine.card.chat_template) == (0.7, "{{ .Prompt }}")
        assert (mine.card.created, mine.expires) == (3, 5.0)
        for name in ("dangling", "other"):
            with pytest.raises(ModelNotFound):
                listing.find(name)
