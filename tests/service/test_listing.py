"""Models served and models on disk, in one list."""

from __future__ import annotations

import pytest

from dragoman.core.errors import ModelNotFound
from dragoman.core.model import ModelCard
from dragoman.core.sampling import SamplingSpec
from dragoman.service.listing import all_states, find_state
from dragoman.service.models import ModelRoster
from tests.service.served import scripted

DEFAULTS = SamplingSpec(temperature=0.2)


def card(id: str, path: str, *aliases: str) -> ModelCard:
    return ModelCard(id=id, path=path, aliases=aliases, format="gguf", engine="")


@pytest.mark.anyio
async def test_served_models_come_first_and_only_once() -> None:
    async with scripted(id="Served", path="/a", sampling_defaults=SamplingSpec(temperature=0.9, top_k=5)) as model:
        shelf = [card("other", "/b"), card("again", "/a"), card("served", "/c")]
        states = all_states(ModelRoster([model]), shelf, DEFAULTS)
    assert [(state.card.id, state.loaded) for state in states] == [("Served", True), ("other", False)]
    sampling = states[0].card.sampling_defaults
    assert (sampling.temperature, sampling.top_k) == (0.2, 5)


@pytest.mark.anyio
async def test_a_model_is_found_by_any_of_its_names() -> None:
    async with scripted(id="served", path="/a") as model:
        roster, shelf = ModelRoster([model]), [card("repo/other", "/b", "file.gguf"), card("served", "/c")]
        for name, id, loaded in (
            ("served", "served", True),
            (None, "served", True),
            ("repo/other", "repo/other", False),
            ("OTHER", "repo/other", False),
            ("file.gguf", "repo/other", False),
        ):
            found = find_state(roster, name, shelf, DEFAULTS)
            assert (found.card.id, found.loaded) == (id, loaded)
        with pytest.raises(ModelNotFound):
            find_state(roster, "nobody", shelf, DEFAULTS)
