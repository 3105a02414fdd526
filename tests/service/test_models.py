"""Which names mean which model (cases.md 39)."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.core.errors import ModelNotFound
from dragoman.service.models import ModelRoster, ServedModel
from tests.service.served import scripted

pytestmark = pytest.mark.anyio


def renamed(model: ServedModel, id: str, *aliases: str) -> ServedModel:
    card = msgspec.structs.replace(model.card, id=id, aliases=aliases)
    return msgspec.structs.replace(model, card=card)


async def test_case_39_names_of_one_model() -> None:
    async with scripted() as model:
        served = renamed(model, "owner/Base-Name", "alias", "file.gguf")
        roster = ModelRoster([served], strict=True)
        for name in ("owner/Base-Name", "OWNER/base-name", "Base-Name", "alias", "file.gguf", "alias:latest", None, ""):
            assert roster.for_request(name) is served
        with pytest.raises(ModelNotFound) as caught:
            roster.for_request("nope")
        assert (caught.value.code, caught.value.field) == ("model_not_found", "model")


async def test_one_model_answers_to_any_name_unless_strict() -> None:
    async with scripted() as model:
        roster = ModelRoster([model])
        assert roster.for_request("gpt-4o") is model
        with pytest.raises(ModelNotFound):
            roster.lookup("gpt-4o")


async def test_several_models_are_told_apart() -> None:
    async with scripted() as model:
        one, other = renamed(model, "one"), renamed(model, "other")
        roster = ModelRoster([one, other])
        assert roster.for_request("other") is other
        assert roster.for_request(None) is one
        with pytest.raises(ModelNotFound):
            roster.for_request("third")
        assert set(roster.stats()) == {"one", "other"}
