"""The model list in Anthropic's shape, page by page."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from anthropic.types import ModelInfo

from dragoman.core.errors import InvalidField
from dragoman.core.operations import ModelRequest, ModelsRequest, ModelState
from dragoman.dialects.anthropic.models import read_model, read_models, speaks_anthropic
from dragoman.dialects.base import WireRequest
from tests.dialects.answers import CARD

STATES = tuple(ModelState(msgspec.structs.replace(CARD, id=name)) for name in "abcde")


def listed(**query: str) -> dict[str, Any]:
    call = read_models(WireRequest(method="GET", path="/v1/models", query=query))
    assert call.request == ModelsRequest(shelved=True)
    body = call.write(STATES)
    assert isinstance(body, bytes)
    return json.loads(body)


def ids(page: dict[str, Any]) -> str:
    return "".join(entry["id"] for entry in page["data"])


def test_an_entry_is_what_the_sdk_expects() -> None:
    entry = listed()["data"][0]
    model = ModelInfo.model_validate(entry, strict=False)
    assert (model.type, model.id, model.display_name, model.lifecycle) == ("model", "a", "a", "active")
    assert (model.max_input_tokens, model.created_at.timestamp()) == (CARD.context_length, CARD.created)
    assert model.capabilities is not None
    assert model.capabilities.batch.supported
    clears = model.capabilities.context_management.clear_tool_uses_20250919
    assert clears is not None
    assert clears.supported
    assert not model.capabilities.thinking.supported


@pytest.mark.parametrize(
    ("query", "page", "more"),
    [
        ({}, "abcde", False),
        ({"limit": "2"}, "ab", True),
        ({"limit": "2", "after_id": "b"}, "cd", True),
        ({"limit": "2", "after_id": "c"}, "de", False),
        ({"after_id": "e"}, "", False),
        ({"limit": "2", "before_id": "d"}, "bc", True),
        ({"limit": "2", "before_id": "c"}, "ab", False),
        ({"before_id": "a"}, "", False),
    ],
)
def test_pages(query: dict[str, str], page: str, more: bool) -> None:
    found = listed(**query)
    assert (ids(found), found["has_more"]) == (page, more)
    assert (found["first_id"], found["last_id"]) == ((page[0], page[-1]) if page else (None, None))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "some"}, "limit"),
        ({"after_id": "z"}, "after_id"),
        ({"before_id": "z"}, "before_id"),
        ({"before_id": "a", "after_id": "b"}, "before_id"),
    ],
)
def test_bad_pages(query: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        listed(**query)
    assert caught.value.field == field


def test_one() -> None:
    call = read_model(WireRequest(method="GET", path="/v1/models/a/b", params={"id": "a/b"}))
    assert call.request == ModelRequest("a/b", shelved=True)
    body = call.write(STATES[0])
    assert isinstance(body, bytes)
    assert json.loads(body)["id"] == "a"


def test_who_speaks_anthropic() -> None:
    assert speaks_anthropic({"anthropic-version": "2023-06-01"})
    assert speaks_anthropic({"x-api-key": "k", "anthropic-beta": "x"})
    assert not speaks_anthropic({"x-api-key": "k", "authorization": "Bearer k"})
