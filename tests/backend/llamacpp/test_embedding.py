"""Embeddings and relevance on llama.cpp: tiny random models against their definition, and the starter model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.embedder import embedding_options
from dragoman.backend.llamacpp.encoder import LlamaCppEncoder
from dragoman.core.errors import EngineFailure, NotSupported, Unavailable
from dragoman.core.vectors import EmbedWork, RerankWork
from tests.backend.llamacpp.rig import ask, chunks_of, ids_of, serving
from tests.support.bert_files import Reference, random_bert, write_bert_gguf

pytestmark = pytest.mark.anyio

INPUTS = ((2, 5, 7, 9, 3), (2, 8, 3), (2, *range(5, 40), 3), (2, 3), *((2, token, 3) for token in range(5, 30)))


def unit(rows: tuple[bytes, ...]) -> np.ndarray:
    (only,) = rows
    numbers = np.frombuffer(only, "<f4").astype(np.float64)
    return numbers / np.linalg.norm(numbers)


def options(model: Path, **fields: object) -> LlamaCppOptions:
    return LlamaCppOptions(**({"model": str(model), "lanes": 2, "context": 64, "threads": 1} | fields))


@pytest.mark.llamacpp
@pytest.mark.parametrize("pooling", ["mean", "cls"])
async def test_a_bert_file_gives_the_vectors_of_the_definition(tmp_path: Path, pooling: str) -> None:
    pytest.importorskip("xllamacpp")
    weights = random_bert(1)
    file = write_bert_gguf(tmp_path / "bert.gguf", weights, pooling=pooling)
    backend = LlamaCppEncoder(options(file, pooling=pooling, embed_context=64))
    await backend.start()
    try:
        assert backend.capabilities.embeddings
        assert not backend.capabilities.generation
        assert backend.context_length == 64
        found = await backend.embed(EmbedWork(inputs=INPUTS))
        for ids, rows in zip(INPUTS, found, strict=True):
            np.testing.assert_allclose(unit(rows), Reference(weights).embedding(list(ids), pooling), atol=5e-3)
        with pytest.raises(NotSupported):
            await backend.submit(ask())
        with pytest.raises(NotSupported):
            await backend.rerank(RerankWork(query="a", documents=("b",)))
        assert backend.stats().finished == 1
    finally:
        await backend.stop()


@pytest.mark.llamacpp
async def test_a_reranker_file_scores_documents(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    weights = random_bert(4, ranks=True)
    file = write_bert_gguf(tmp_path / "rank.gguf", weights, pooling="rank")
    backend = LlamaCppEncoder(options(file, pooling="rank", embed_context=64))
    await backend.start()
    try:
        assert backend.capabilities.rerank
        documents = ("the dog", "a cat sat on the mat", "sun", "fish")
        found = await backend.rerank(RerankWork(query="the cat", documents=documents))
        alone = [(await backend.rerank(RerankWork(query="the cat", documents=(text,)))).scores[0] for text in documents]
        np.testing.assert_allclose(found.scores, alone, atol=1e-3)
        assert len({round(score, 3) for score in found.scores}) == len(documents)
        # CLS query SEP document: llama.cpp puts nothing after it for this vocabulary.
        assert found.prompt_tokens == sum(2 + 2 + len(text.split()) for text in documents)
        with pytest.raises(NotSupported):
            await backend.embed(EmbedWork(inputs=((5,),)))
    finally:
        await backend.stop()


@pytest.mark.llamacpp
async def test_a_text_model_embeds_in_a_second_engine_started_when_asked(starter_gguf: Path) -> None:
    pytest.importorskip("xllamacpp")
    backend = LlamaCppBackend(options(starter_gguf, context=512, pooling="mean", embed_context=256))
    await backend.start()
    try:
        assert backend.capabilities.embeddings
        assert backend.capabilities.embedding_tokens == 256
        embedder = backend._embedder
        assert embedder is not None
        assert embedder.pid is None
        inputs = ((28120, 905), (504,), tuple(range(500, 560)))
        first, second = await asyncio.gather(
            backend.embed(EmbedWork(inputs=inputs)), backend.embed(EmbedWork(inputs=inputs[:1]))
        )
        assert embedder.pid not in (None, backend.pid)
        # Inputs of different lengths share a batch: each must be what it is alone.
        for ids, rows in zip(inputs, first, strict=True):
            (alone,) = await backend.embed(EmbedWork(inputs=(ids,)))
            assert float(unit(rows) @ unit(alone)) > 0.999
        assert float(unit(first[0]) @ unit(second[0])) > 0.999
        assert ids_of(await chunks_of(backend, ask((504, 3575, 282, 4649, 314), 4)))
        stats = backend.stats()
        assert (stats.running, stats.waiting, stats.finished) == (0, 0, 2 + len(inputs) + 1)
        assert stats.prompt_tokens == 2 * sum(map(len, inputs)) + len(inputs[0]) + 5
    finally:
        await backend.stop()
    assert embedder.pid is None


async def test_a_model_not_served_for_embeddings_says_so() -> None:
    async with serving() as (backend, _):
        assert not backend.capabilities.embeddings
        with pytest.raises(NotSupported, match="--embeddings"):
            await backend.embed(EmbedWork(inputs=((1,),)))


async def test_what_waits_for_an_engine_that_cannot_start_hears_why(tmp_path: Path) -> None:
    backend = LlamaCppEncoder(options(tmp_path / "nowhere.gguf", pooling="mean", embed_context=64))
    with pytest.raises(EngineFailure, match=r"nowhere\.gguf"):
        await backend.start()
    assert backend.health().status == "failed"
    await backend.stop()
    with pytest.raises(Unavailable):
        await backend.embed(EmbedWork(inputs=((1,),)))


def test_an_input_that_is_not_split_fits_into_one_batch() -> None:
    made = embedding_options(LlamaCppOptions(model="m", context=4096, embed_context=1024, pooling="mean", kv_bits=8))
    assert (made.context, made.batch, made.ubatch, made.kv_unified, made.kv_bits) == (1024, 1024, 1024, True, 0)
    assert made.engine_args[-3:] == ("--embeddings", "--pooling", "mean")
    split = embedding_options(LlamaCppOptions(model="m", embed_context=8192, pooling="last"))
    assert (split.context, split.ubatch) == (8192, 512)
    url = embedding_options(LlamaCppOptions(model="m", pooling="mean", llama_server="http://x"))
    assert url.engine_args == ()
