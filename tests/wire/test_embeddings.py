"""Embeddings and reranking over real sockets: official SDKs, recorded exchanges, both engines."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest

from tests.support.bert_files import Reference, random_bert, write_bert_folder, write_bert_gguf
from tests.support.running import RunningServer, running
from tests.wire.conftest import settings

GOLDEN = Path(__file__).parent.parent / "dialects" / "llamacpp" / "golden_vectors"
TEXTS = ["the cat sat", "a dog runs in the park", "sun"]
IDS = {"the cat sat": [2, 5, 7, 9, 3], "sun": [2, 15, 3]}


def serving(model: Path, **engine: Any) -> Iterator[RunningServer]:
    with running(dataclasses.replace(settings(**engine), model=str(model))) as server:
        yield server


@pytest.fixture(scope="module")
def text_model(starter_gguf: Path) -> Iterator[RunningServer]:
    """As the recordings were made: --embeddings --pooling mean on the starter model."""
    pytest.importorskip("xllamacpp")
    yield from serving(starter_gguf, ctx=2048, max_lanes=1, threads=2, embeddings=True, pooling="mean")


@pytest.fixture(scope="module", params=["llamacpp", "mlx"])
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One tiny BERT on either engine."""
    folder = tmp_path_factory.mktemp("bert")
    if request.param == "mlx":
        pytest.importorskip("mlx.core")
        yield from serving(write_bert_folder(folder / "bert", random_bert(1)), mlx_blas="off")
    else:
        pytest.importorskip("xllamacpp")
        yield from serving(write_bert_gguf(folder / "bert.gguf", random_bert(1)), threads=1)


@pytest.fixture(scope="module", params=["llamacpp", "mlx"])
def reranker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One tiny cross-encoder on either engine."""
    folder, weights = tmp_path_factory.mktemp("rank"), random_bert(4, ranks=True)
    if request.param == "mlx":
        pytest.importorskip("mlx.core")
        yield from serving(write_bert_folder(folder / "rank", weights, ranks=True), mlx_blas="off")
    else:
        pytest.importorskip("xllamacpp")
        yield from serving(write_bert_gguf(folder / "rank.gguf", weights, pooling="rank"), threads=1)


def post(server: RunningServer, path: str, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(server.url + path, content=content, timeout=120, headers={"content-type": "application/json"})


def client(server: RunningServer) -> openai.OpenAI:
    """Closed connections: a socket left to the garbage collector is a warning."""
    http = openai.DefaultHttpxClient(headers={"connection": "close"})
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=http)


def ollama_client(server: RunningServer) -> ollama.Client:
    return ollama.Client(host=server.url, headers={"connection": "close"})


def test_the_openai_sdk_reads_its_default_base64(embedder: RunningServer) -> None:
    found = client(embedder).embeddings.create(model="m", input=TEXTS)
    assert [entry.index for entry in found.data] == [0, 1, 2]
    assert all(math.hypot(*entry.embedding) == pytest.approx(1, abs=1e-5) for entry in found.data)
    assert found.usage.prompt_tokens == found.usage.total_tokens == 5 + 8 + 3
    reference = Reference(random_bert(1))
    for text, ids in IDS.items():
        entry = found.data[TEXTS.index(text)]
        np.testing.assert_allclose(entry.embedding, reference.embedding(ids), atol=5e-3)
    floats = client(embedder).embeddings.create(model="m", input=TEXTS, encoding_format="float")
    for one, other in zip(found.data, floats.data, strict=True):
        np.testing.assert_allclose(one.embedding, other.embedding, atol=1e-5)


def test_token_inputs_equal_their_text(embedder: RunningServer) -> None:
    found = client(embedder).embeddings.create(model="m", input=[IDS["the cat sat"], IDS["sun"]])
    text = client(embedder).embeddings.create(model="m", input=["the cat sat", "sun"])
    for one, other in zip(found.data, text.data, strict=True):
        np.testing.assert_allclose(one.embedding, other.embedding, atol=1e-3)


def test_dimensions_are_cut_and_of_unit_length(embedder: RunningServer) -> None:
    whole = client(embedder).embeddings.create(model="m", input="sun").data[0].embedding
    cut = client(embedder).embeddings.create(model="m", input="sun", dimensions=8).data[0].embedding
    np.testing.assert_allclose(cut, np.array(whole[:8]) / np.linalg.norm(whole[:8]), atol=1e-5)
    with pytest.raises(openai.BadRequestError) as caught:
        client(embedder).embeddings.create(model="m", input="sun", dimensions=33)
    assert caught.value.param == "dimensions"


def test_long_inputs_are_refused_or_cut_when_asked(embedder: RunningServer) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client(embedder).embeddings.create(model="m", input=["sun", "cat " * 90])
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input[1]")
    cut = client(embedder).embeddings.create(model="m", input="cat " * 90, extra_body={"truncate": True})
    assert cut.usage.prompt_tokens == 64


def test_the_ollama_sdk_embeds(embedder: RunningServer) -> None:
    found = ollama_client(embedder).embed(model="m", input=TEXTS)
    assert len(found.embeddings) == 3
    assert found.prompt_eval_count == 16
    old = ollama_client(embedder).embeddings(model="m", prompt="sun").embedding
    np.testing.assert_allclose(np.array(old) / np.linalg.norm(old), found.embeddings[2], atol=1e-3)
    shown = ollama_client(embedder).show(
        post(embedder, "/api/embed", {"model": "x"}).json()["model"] and model(embedder)
    )
    assert "embedding" in (shown.capabilities or [])
    assert "completion" not in (shown.capabilities or [])


def model(server: RunningServer) -> str:
    return httpx.get(f"{server.url}/v1/models", timeout=30).json()["data"][0]["id"]


def test_an_embedding_model_generates_nothing_and_says_so(embedder: RunningServer) -> None:
    answer = post(embedder, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
    assert answer.status_code == 501
    assert "generates no text" in answer.json()["error"]["message"]
    listed = httpx.get(f"{embedder.url}/v1/models", timeout=30).json()["data"][0]["capabilities"]
    assert (listed["embeddings"], listed["rerank"], listed["chat_completions"]) == (True, False, False)
    assert post(embedder, "/v1/rerank", {"query": "a", "documents": ["b"]}).status_code == 501


def test_a_reranker_orders_documents_on_every_wire(reranker: RunningServer) -> None:
    documents = ["the dog", "a cat sat on the mat", "sun", "fish"]
    body = {"query": "the cat", "documents": documents}
    jina = post(reranker, "/v1/rerank", body | {"return_documents": True}).json()
    scores = [entry["relevance_score"] for entry in jina["results"]]
    assert scores == sorted(scores, reverse=True)
    assert [entry["document"]["text"] for entry in jina["results"]] == [documents[e["index"]] for e in jina["results"]]
    order = [entry["index"] for entry in jina["results"]]
    native = post(reranker, "/rerank", body | {"top_n": 2}).json()
    assert [entry["index"] for entry in native["results"]] == order[:2]
    texts = post(reranker, "/reranking", {"query": "the cat", "texts": documents, "return_text": True}).json()
    assert [entry["text"] for entry in texts] == [documents[index] for index in order]
    cohere = post(reranker, "/v2/rerank", body).json()
    assert [entry["index"] for entry in cohere["results"]] == order
    assert all(0 < entry["relevance_score"] < 1 for entry in cohere["results"])
    long = post(reranker, "/v1/rerank", {"query": "the cat", "documents": ["cat " * 90]})
    assert (long.status_code, long.json()["error"]["param"]) == (400, "documents[0]")
    cut = post(reranker, "/v1/rerank", {"query": "the cat", "documents": ["cat " * 90], "truncation": True})
    assert cut.status_code == 200
    assert post(reranker, "/v1/embeddings", {"input": "a"}).status_code == 501


EXACT = sorted(
    path.stem
    for path in GOLDEN.glob("emb_*.json")
    if path.stem not in ("emb_empty_array", "emb_v1_bad_encoding", "emb_missing_input", "emb_empty_string")
)
"""The others are refusals on /v1/embeddings, which answers in OpenAI's envelope."""


@pytest.mark.llamacpp
@pytest.mark.parametrize("name", EXACT)
def test_recorded_exchanges(name: str, text_model: RunningServer) -> None:
    recorded = json.loads((GOLDEN / f"{name}.json").read_text())
    sent, expected = recorded["request"], recorded["response"]
    answer = post(text_model, sent["path"], sent["raw_body"].encode() if "raw_body" in sent else sent["body"])
    assert answer.status_code == expected["status"]
    close(expected["body"], answer.json())


def close(expected: Any, actual: Any, at: str = "") -> None:
    """Same keys in order, same values, vectors in about the same direction."""
    if isinstance(expected, dict):
        assert list(expected) == list(actual), at
        for key, value in expected.items():
            if key == "embedding":
                assert cosine(value, actual[key]) > 0.999, at
            elif key != "model":
                close(value, actual[key], f"{at}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(actual), at
        for index, value in enumerate(expected):
            close(value, actual[index], f"{at}[{index}]")
    else:
        assert expected == actual, at


def cosine(one: Any, other: Any) -> float:
    a, b = numbers(one), numbers(other)
    assert np.linalg.norm(a) == pytest.approx(np.linalg.norm(b), rel=0.02)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def numbers(value: Any) -> np.ndarray:
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), "<f4").astype(np.float64)
    return np.array(value, np.float64).reshape(-1)


@pytest.mark.llamacpp
def test_the_text_model_goes_on_generating(text_model: RunningServer) -> None:
    answer = client(text_model).completions.create(
        model="m", prompt="The capital of France is", max_tokens=4, temperature=0
    )
    assert "Paris" in answer.choices[0].text


@pytest.mark.llamacpp
def test_without_the_flag_a_text_model_refuses_as_recorded(llamacpp: RunningServer) -> None:
    recorded = json.loads((GOLDEN / "embedding_disabled_501.json").read_text())
    answer = post(llamacpp, "/embedding", recorded["request"]["body"])
    assert (answer.status_code, answer.json()) == (501, recorded["response"]["body"])
