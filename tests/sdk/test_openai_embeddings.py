"""The SDK's embeddings, alone and in batches, on a small BERT of either engine."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from openai.resources import Embeddings

from tests.sdk.test_openai_stored import ended, strict
from tests.support.bert_files import random_bert, write_bert_folder, write_bert_gguf
from tests.support.running import RunningServer, running
from tests.wire.clients import MODEL, openai_client
from tests.wire.conftest import settings

TEXTS = ["the cat sat", "a dog runs in the park", "sun"]


@pytest.fixture(scope="module", params=["llamacpp", "mlx"])
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("bert")
    if request.param == "mlx":
        pytest.importorskip("mlx.core")
        model, config = write_bert_folder(folder / "bert", random_bert(1)), settings(mlx_blas="off")
    else:
        pytest.importorskip("xllamacpp")
        model, config = write_bert_gguf(folder / "bert.gguf", random_bert(1)), settings(threads=1)
    with running(dataclasses.replace(config, model=str(model))) as server:
        yield server


@pytest.fixture
def client(embedder: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(embedder.url) as client:
        yield client


def test_no_method_is_forgotten() -> None:
    assert {name for name in vars(Embeddings) if not name.startswith(("_", "with_"))} == {"create"}


def test_case_35_encodings_and_dimensions(client: openai.OpenAI) -> None:
    packed = client.embeddings.create(model=MODEL, input=TEXTS)
    strict(packed)
    floats = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    assert [one.index for one in packed.data] == [0, 1, 2]
    for one, other in zip(packed.data, floats.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
        assert np.linalg.norm(one.embedding) == pytest.approx(1, abs=1e-5)
    short = client.embeddings.create(model=MODEL, input=TEXTS, dimensions=4).data[0].embedding
    whole = np.array(packed.data[0].embedding[:4])
    assert short == pytest.approx(whole / np.linalg.norm(whole), abs=1e-5)
    raw = client.embeddings.with_raw_response.create(model=MODEL, input="sun", encoding_format="base64")
    text = json.loads(raw.text)["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(text), "<f4") == pytest.approx(packed.data[2].embedding, abs=1e-6)


def test_case_35_what_is_no_encoding_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=MODEL, input=["a"], encoding_format="hex")  # type: ignore[arg-type]
    assert caught.value.param == "encoding_format"
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=MODEL, input="sun", dimensions=100_000)
    assert caught.value.param == "dimensions"


def test_a_batch_of_embeddings(client: openai.OpenAI) -> None:
    bodies = [
        {"model": MODEL, "input": TEXTS},
        {"model": MODEL, "input": "sun", "dimensions": 4},
        {"model": MODEL, "input": [2, 15, 3], "encoding_format": "base64"},
        {"model": MODEL, "input": "sun " * 5000},
        {"model": MODEL, "input": []},
    ]
    rows = [
        {"custom_id": f"r{index}", "method": "POST", "url": "/v1/embeddings", "body": body}
        for index, body in enumerate(bodies)
    ]
    file = client.files.create(file=("rows.jsonl", "\n".join(map(json.dumps, rows)).encode()), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h")
    done = ended(client, made)
    counts = done.request_counts
    assert (done.status, counts.completed, counts.failed) == ("completed", 3, 2)
    good, bad = (
        {line["custom_id"]: line for line in map(json.loads, client.files.content(id).text.splitlines())}
        for id in (done.output_file_id, done.error_file_id)
    )
    assert set(good) == {"r0", "r1", "r2"}
    alone = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    for one, other in zip(good["r0"]["response"]["body"]["data"], alone.data, strict=True):
        assert one["embedding"] == pytest.approx(other.embedding, abs=1e-5)
    assert len(good["r1"]["response"]["body"]["data"][0]["embedding"]) == 4
    assert isinstance(good["r2"]["response"]["body"]["data"][0]["embedding"], str)
    assert bad["r3"]["response"]["body"]["error"]["code"] == "context_length_exceeded"
    assert bad["r4"]["response"]["body"]["error"]["param"] == "input"
