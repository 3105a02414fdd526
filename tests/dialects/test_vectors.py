"""Every wire for embeddings and reranking, without an engine: bodies read, results written, faults named."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import DragomanError, InvalidField, InvalidRequest, MissingField
from dragoman.core.operations import CountRequest
from dragoman.core.request import RawInput
from dragoman.core.vectors import Embedded, EmbedRequest, Ranked, Reranked, RerankRequest, pack, unpack
from dragoman.dialects.base import Dialect, SmallCall, WireRequest
from dragoman.dialects.cohere.endpoints import DIALECT as COHERE
from dragoman.dialects.cohere.read import share
from dragoman.dialects.llamacpp.endpoints import DIALECT as NATIVE
from dragoman.dialects.ollama.endpoints import DIALECT as OLLAMA
from dragoman.dialects.openai_embeddings.endpoints import DIALECT as OPENAI
from dragoman.dialects.rerank.endpoints import DIALECT as RERANK
from tests.support.golden import differences

GOLDEN = Path(__file__).parent / "llamacpp" / "golden_vectors"
RANKED = Reranked(model="m", results=(Ranked(1, 2.0), Ranked(0, -1.0)), prompt_tokens=9)
FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5)


def call(dialect: Dialect, path: str, body: Any) -> SmallCall:
    row = next(row for row in dialect.endpoints if row.path == path and row.method == "POST")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = row.read(WireRequest(method="POST", path=path, body=raw))
    assert isinstance(found, SmallCall)
    return found


def asked(dialect: Dialect, path: str, **body: Any) -> Any:
    return call(dialect, path, body).request


def embeddings(**body: Any) -> EmbedRequest:
    return asked(OPENAI, "/v1/embeddings", **body)


def inputs_of(request: EmbedRequest) -> list[Any]:
    return [item.pieces[0] for item in request.inputs]


def result(*rows: list[float]) -> Embedded:
    return Embedded(model="served", vectors=tuple((pack(row),) for row in rows), prompt_tokens=7)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("hi", ["hi"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [(1, 2)]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
        (["a", [3]], ["a", (3,)]),
        ("", [""]),
    ],
)
def test_openai_inputs(given: Any, read: list[Any]) -> None:
    assert inputs_of(embeddings(input=given)) == read


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [1, -2]}, "input[1]"),
        ({"input": [1, "a"]}, "input[1]"),
        ({"input": ["a", 1]}, "input[1]"),
        ({"input": [True]}, "input[0]"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": "many"}, "dimensions"),
        ({"input": "a", "embd_normalize": -2}, "embd_normalize"),
        ({"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    ],
)
def test_openai_faults_name_the_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises((InvalidField, MissingField)) as caught:
        call(OPENAI, "/v1/embeddings", body)
    assert caught.value.field == field


def test_openai_options() -> None:
    request = embeddings(input="a", model="m", dimensions=8, instruction="find", user="u", truncate=True)
    assert (request.model, request.dimensions, request.instruction, request.truncate) == ("m", 8, "find", 0)
    assert (request.norm, request.pooled) == (2, True)
    assert embeddings(input="a").truncate is None
    assert embeddings(input="a", truncate_prompt_tokens=-1).truncate == 0
    assert embeddings(input="a", truncate_prompt_tokens=5).truncate == 5
    assert embeddings(input="a", embd_normalize=-1).norm == -1
    assert call(OPENAI, "/v1/embeddings", {"input": "a", "colour": 1}).ignored == ("colour",)


@given(st.lists(FLOATS, min_size=1, max_size=4))
def test_case_35_base64_and_floats_tell_the_same_vectors(rows: list[list[float]]) -> None:
    """cases.md 35: little-endian float32, order and index kept, floats by default, usage present."""
    embedded = result(*rows)
    plain = json.loads(call(OPENAI, "/v1/embeddings", {"input": "a"}).write(embedded))
    packed = json.loads(call(OPENAI, "/v1/embeddings", {"input": "a", "encoding_format": "base64"}).write(embedded))
    for index, row in enumerate(rows):
        assert plain["data"][index]["index"] == packed["data"][index]["index"] == index
        assert plain["data"][index]["embedding"] == row
        decoded = np.frombuffer(base64.b64decode(packed["data"][index]["embedding"]), "<f4")
        assert decoded.tolist() == row
    assert plain["usage"] == packed["usage"] == {"prompt_tokens": 7, "total_tokens": 7}


def test_golden_shapes_of_embeddings() -> None:
    for name, dialect in (
        ("emb_v1", OPENAI), ("emb_v1_base64", OPENAI), ("emb_v1_no_model", OPENAI), ("emb_v1_tokens", OPENAI),
        ("emb_v1_content_key", OPENAI), ("emb_native_embedding", NATIVE), ("emb_native_embeddings_alias", NATIVE),
        ("emb_native_input_key", NATIVE), ("emb_native_base64_ignored", NATIVE), ("embnone_native", NATIVE),
    ):  # fmt: skip
        recorded = json.loads((GOLDEN / f"{name}.json").read_text())
        sent, expected = recorded["request"], recorded["response"]["body"]
        entries = expected["data"] if isinstance(expected, dict) else expected
        usage = expected["usage"]["prompt_tokens"] if isinstance(expected, dict) else 0
        vectors = tuple(tuple(recorded_rows(entry["embedding"])) for entry in entries)
        read = call(dialect, sent["path"], sent["body"])
        assert len(read.request.inputs) == len(entries)
        written = json.loads(read.write(Embedded(model="m", vectors=vectors, prompt_tokens=usage)))
        assert differences(expected, written) == [], name


def recorded_rows(embedding: Any) -> list[bytes]:
    if isinstance(embedding, str):
        return [base64.b64decode(embedding)]
    return [pack(row) for row in (embedding if isinstance(embedding[0], list) else [embedding])]


@pytest.mark.parametrize(
    "name",
    [
        "emb_invalid_json",
        "rerank_documents_bad_type",
        "rerank_empty_documents",
        "rerank_invalid_json",
        "rerank_missing_documents",
        "rerank_missing_query",
        "rerank_query_not_string",
    ],
)
def test_golden_refusals(name: str) -> None:
    recorded = json.loads((GOLDEN / f"{name}.json").read_text())
    sent = recorded["request"]
    body = sent["raw_body"].encode() if "raw_body" in sent else sent["body"]
    with pytest.raises(DragomanError) as caught:
        call(NATIVE, sent["path"], body)
    reply = NATIVE.error(caught.value, "id")
    assert reply.status == recorded["response"]["status"]
    assert differences(recorded["response"]["body"], json.loads(reply.body)) == []


def test_native_embedding_faults() -> None:
    for body, status, words in (
        ({}, 400, '"input" or "content" must be provided'),
        ({"input": []}, 500, '"prompt" must not be empty'),
        ({"content": "a", "encoding_format": "hex"}, 400, "Can be either float or base64"),
        ({"content": "a", "encoding_format": 5}, 500, "type must be string, but is number"),
        ({"content": "a", "embd_normalize": "x"}, 500, "type must be number, but is string"),
        ([], 400, "cannot use at() with array"),
    ):
        with pytest.raises(DragomanError) as caught:
            call(NATIVE, "/embedding", body)
        assert caught.value.status == status
        assert words in caught.value.message


@pytest.mark.parametrize("name", ["rerank_jina", "rerank_top_n", "rerank_tei", "rerank_tei_no_text"])
def test_golden_shapes_of_rerank(name: str) -> None:
    recorded = json.loads((GOLDEN / f"{name}.json").read_text())
    sent, expected = recorded["request"], recorded["response"]["body"]
    entries = expected["results"] if isinstance(expected, dict) else expected
    score = "relevance_score" if isinstance(expected, dict) else "score"
    ranked = tuple(Ranked(entry["index"], entry[score]) for entry in entries)
    tokens = expected["usage"]["prompt_tokens"] if isinstance(expected, dict) else 0
    for dialect, path in (
        (NATIVE, "/rerank"),
        (NATIVE, "/reranking"),
        (RERANK, "/v1/rerank"),
        (RERANK, "/v1/reranking"),
    ):
        read = call(dialect, path, sent["body"])
        assert isinstance(read.request, RerankRequest)
        assert len(entries) == min(read.request.top_n or 99, len(read.request.documents))
        written = json.loads(read.write(Reranked(model="m", results=ranked, prompt_tokens=tokens)))
        assert differences(expected, written) == []


def test_jina_objects_documents_and_cuts() -> None:
    body = {"query": {"text": "q"}, "documents": ["a", {"text": "b"}], "return_documents": True, "truncation": True}
    read = call(RERANK, "/v1/rerank", body)
    assert read.request == RerankRequest(query="q", documents=("a", "b"), truncate=0)
    results = json.loads(read.write(RANKED))["results"]
    assert results[0] == {"index": 1, "relevance_score": 2.0, "document": {"text": "b"}}
    for wrong, field in (
        ({"documents": ["a"]}, "query"),
        ({"query": "q"}, "documents"),
        ({"query": "q", "documents": []}, "documents"),
        ({"query": "q", "documents": ["a"] * 1001}, "documents"),
        ({"query": "q", "documents": [1]}, "documents[0]"),
        ({"query": "q", "documents": ["a"], "top_n": 0}, "top_n"),
        ({"query": "q", "documents": ["a"], "max_tokens_per_doc": 0}, "max_tokens_per_doc"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            call(RERANK, "/v1/rerank", wrong)
        assert caught.value.field == field


def test_cohere_scores_are_shares_of_one() -> None:
    read = call(COHERE, "/v2/rerank", {"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2})
    assert read.request == RerankRequest(query="q", documents=("a", "b"), model="m", top_n=2, truncate=4096)
    written = json.loads(read.write(RANKED))
    assert [entry["index"] for entry in written["results"]] == [1, 0]
    assert written["results"][0]["relevance_score"] == pytest.approx(1 / (1 + math.exp(-2)))
    assert written["meta"]["billed_units"] == {"search_units": 1}
    assert share(-1000, cosine=False) == 0
    assert share(1000, cosine=False) == 1
    assert (share(-0.5, cosine=True), share(0.5, cosine=True)) == (0, 0.5)
    reply = COHERE.error(InvalidField("No.", field="query"), "id-1")
    assert json.loads(reply.body) == {"id": "id-1", "message": "No."}


def test_ollama_embed() -> None:
    read = call(
        OLLAMA, "/api/embed", {"model": "m", "input": ["a", "b"], "keep_alive": "5m", "options": {"num_ctx": 9}}
    )
    assert read.request == EmbedRequest(inputs=(RawInput(("a",)), RawInput(("b",))), model="m", truncate=0)
    assert read.ignored == ("options.num_ctx",)
    written = json.loads(read.write(result([1.0, 0.0], [0.0, 1.0])))
    assert list(written) == ["model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"]
    assert (written["model"], written["embeddings"]) == ("m", [[1.0, 0.0], [0.0, 1.0]])
    assert asked(OLLAMA, "/api/embed", model="m", input="a", truncate=False).truncate is None
    assert asked(OLLAMA, "/api/embed", model="m", input="a", dimensions=3).dimensions == 3
    empty = call(OLLAMA, "/api/embed", {"model": "m"})
    assert isinstance(empty.request, CountRequest)
    assert json.loads(empty.write(None)) == {"model": "m", "embeddings": []}


def test_ollamas_older_embeddings() -> None:
    read = call(OLLAMA, "/api/embeddings", {"model": "m", "prompt": "a"})
    assert read.request == EmbedRequest(inputs=(RawInput(("a",)),), model="m", norm=-1, truncate=0)
    assert json.loads(read.write(result([3.0, 4.0]))) == {"embedding": [3.0, 4.0]}
    empty = call(OLLAMA, "/api/embeddings", {"model": "m"})
    assert json.loads(empty.write(None)) == {"embedding": []}
    for path in ("/api/embed", "/api/embeddings"):
        for body in (b"", {"input": "a"}, {"model": "m", "input": 5, "prompt": 5}):
            with pytest.raises(InvalidRequest):
                call(OLLAMA, path, body)


@given(FLOATS)
def test_packing_is_lossless(numbers: list[float]) -> None:
    assert unpack(pack(numbers)) == numbers
    assert pack(numbers) == np.array(numbers, "<f4").tobytes()
