"""The model list, read by the clients that share its path."""

from __future__ import annotations

import json

import msgspec
import pytest
from anthropic.types import ModelInfo
from openai.types import Model

from dragoman.core.operations import ModelRequest, ModelsRequest, ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.openai_models.endpoints import DIALECT
from dragoman.dialects.openai_models.write import write_model, write_models
from tests.dialects.answers import CARD

RICH = msgspec.structs.replace(
    CARD,
    aliases=("tiny", "model.gguf"),
    quantization="Q4_1",
    trained_context=8192,
    vocab_size=100,
    parameters=1000,
    size_bytes=500,
    embedding_length=64,
    tools=True,
    chat_template="x",
)


def get(path: str, **params: str) -> SmallCall:
    row = next(row for row in DIALECT.endpoints if row.path == path)
    call = row.read(WireRequest(method="GET", path=path, params=params))
    assert isinstance(call, SmallCall)
    return call


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
def test_list_route(path: str) -> None:
    call = get(path)
    assert call.request == ModelsRequest(shelved=True)
    body = json.loads(call.write((ModelState(RICH), ModelState(CARD))))
    assert body["object"] == "list"
    assert len(body["data"]) == 2
    assert (body["has_more"], body["first_id"], body["last_id"]) == (False, CARD.id, CARD.id)


@pytest.mark.parametrize("path", ["/v1/models/{id:path}", "/models/{id:path}"])
def test_single_route(path: str) -> None:
    call = get(path, id="tiny/model")
    assert call.request == ModelRequest("tiny/model", shelved=True)
    assert json.loads(call.write(ModelState(RICH)))["id"] == "tiny/model"


def test_case_39_entries_name_the_effective_window() -> None:
    [entry] = json.loads(write_models((ModelState(RICH),)))["data"]
    Model.model_validate(entry, strict=True)
    assert entry["object"] == "model"
    assert entry["created"] == 1_700_000_000
    assert entry["owned_by"] == "dragoman"
    assert entry["aliases"] == ["tiny", "model.gguf"]
    assert (entry["context_length"], entry["max_model_len"]) == (4096, 4096)
    assert entry["quantization"] == "Q4_1"
    assert entry["meta"] == {
        "n_vocab": 100,
        "n_ctx": 4096,
        "n_ctx_train": 8192,
        "n_embd": 64,
        "n_params": 1000,
        "size": 500,
    }
    assert entry["capabilities"] == {
        "chat_completions": True,
        "text_completions": True,
        "tools": True,
        "reasoning": False,
        "streaming": True,
        "embeddings": False,
        "rerank": False,
    }


def test_single_model_holds_its_own_list() -> None:
    body = json.loads(write_model(ModelState(RICH)))
    [entry] = body.pop("data")
    assert entry == body


def test_anthropic_clients_read_the_same_entries() -> None:
    [entry] = json.loads(write_models((ModelState(CARD),)))["data"]
    entry.pop("capabilities")  # of another shape there; their SDK does not validate it
    info = ModelInfo.model_validate(entry)
    assert (info.type, info.display_name, info.max_input_tokens) == ("model", CARD.id, 4096)
    assert info.created_at.year == 2023


def test_no_models() -> None:
    assert json.loads(write_models(())) == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def test_models_that_are_not_loaded_are_marked() -> None:
    states = (ModelState(RICH), ModelState(CARD, loaded=False))
    entries = json.loads(write_models(states))["data"]
    assert [entry["status"]["value"] for entry in entries] == ["loaded", "unloaded"]


def test_generation_defaults_are_the_values_set() -> None:
    card = msgspec.structs.replace(RICH, sampling_defaults=SamplingSpec(temperature=0.3, top_k=7))
    [entry] = json.loads(write_models((ModelState(card),)))["data"]
    assert entry["generation_defaults"] == {"temperature": 0.3, "top_k": 7}
