"""Embeddings and reranking between wire and engine, on an encoder that can be computed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.backend.local.encoder import EncoderBackend
from dragoman.core.errors import (
    ContextLengthExceeded,
    EngineFailure,
    InvalidField,
    InvalidRequest,
    NotSupported,
    TokenOutOfRange,
    Unavailable,
)
from dragoman.core.model import Capabilities
from dragoman.core.request import RawInput
from dragoman.core.vectors import EmbedRequest, EmbedWork, RerankRequest, pack, unpack
from dragoman.engines.base import Pair
from dragoman.engines.fake import FakeScript, FakeTokenizer, card_of
from dragoman.prompt.builder import PromptBuilder
from dragoman.service.embed import cut_ids, embed, normalised
from dragoman.service.models import ServedModel
from dragoman.service.rerank import RerankRules, rerank

pytestmark = pytest.mark.anyio

WIDTH = 4


class ByHand:
    """Each input's vector is its length, its first and last id and 1; a pair's score is the document's length."""

    build = "by hand"
    context_length = 12

    def __init__(self, pooling: str = "mean", spoil: float = 1.0) -> None:
        self._pooling = pooling
        self._spoil = spoil
        self.groups: list[int] = []

    @property
    def capabilities(self) -> Capabilities:
        ranks = self._pooling == "rank"
        return Capabilities(
            sampling=frozenset(), generation=False, embeddings=not ranks, rerank=ranks, pooling=self._pooling
        )

    def load(self) -> None:
        pass

    def embed(self, inputs: Sequence[tuple[int, ...]]) -> list[tuple[bytes, ...]]:
        self.groups.append(len(inputs))
        rows = [pack([len(ids), ids[0], ids[-1], self._spoil]) for ids in inputs]
        if self._pooling == "none":
            return [(row,) * len(ids) for row, ids in zip(rows, inputs, strict=True)]
        return [(row,) for row in rows]

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        return [float(sum(pair.types)) for pair in pairs]

    def unload(self) -> None:
        pass


@pytest.fixture(scope="module")
def workers():
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.fixture
async def models() -> AsyncIterator[object]:
    script = FakeScript()
    tokenizer = FakeTokenizer(script)
    opened: list[EncoderBackend] = []

    async def served(encoder: ByHand) -> ServedModel:
        def pair_of(query: str, document: str) -> Pair:
            ids = [tokenizer.encode(text, add_special=False, parse_special=True) for text in (query, document)]
            return Pair((*ids[0], *ids[1]), (*[0] * len(ids[0]), *[1] * len(ids[1])))

        backend = EncoderBackend(encoder, pair_of=pair_of)
        await backend.start()
        opened.append(backend)
        card = msgspec.structs.replace(card_of(script), embedding_length=WIDTH)
        return ServedModel(
            card=card,
            tokenizer=tokenizer,
            builder=PromptBuilder(tokenizer, script.chat_template),
            backend=backend,
        )

    yield served
    for backend in opened:
        await backend.stop()


def asked(*texts: str | tuple[int, ...], **fields: object) -> EmbedRequest:
    return EmbedRequest(inputs=tuple(RawInput((text,)) for text in texts), **fields)


async def test_vectors_have_unit_length_and_the_order_of_the_inputs(models, workers) -> None:
    model = await models(ByHand())
    found = await embed(model, asked((3, 4), (5,)), workers)
    first, second = (np.array(unpack(rows[0])) for rows in found.vectors)
    np.testing.assert_allclose(first, np.array([2, 3, 4, 1]) / np.sqrt(30), rtol=1e-6)
    np.testing.assert_allclose(second, np.array([1, 5, 5, 1]) / np.sqrt(52), rtol=1e-6)
    assert found.prompt_tokens == 3
    assert found.model == model.card.id


async def test_dimensions_cut_first_and_normalise_afterwards(models, workers) -> None:
    model = await models(ByHand())
    found = await embed(model, asked((3, 4), dimensions=2), workers)
    np.testing.assert_allclose(unpack(found.vectors[0][0]), np.array([2, 3]) / np.sqrt(13), rtol=1e-6)
    for wrong in (0, WIDTH + 1):
        with pytest.raises(InvalidField, match="dimensions"):
            await embed(model, asked((3,), dimensions=wrong), workers)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [(-1, [2, 3, 4, 1]), (0, [16380, 24570, 32760, 8190]), (1, [0.2, 0.3, 0.4, 0.1]), (3, None)],
)
async def test_every_norm_of_llama_server(models, workers, norm: int, expected: list[float] | None) -> None:
    model = await models(ByHand())
    found = unpack((await embed(model, asked((3, 4), norm=norm), workers)).vectors[0][0])
    if expected is None:
        assert sum(abs(number) ** norm for number in found) == pytest.approx(1.0, rel=1e-5)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=8),
    st.integers(-1, 40),
)
def test_normalising_never_overflows_and_keeps_zero(numbers: list[float], norm: int) -> None:
    found = normalised(np.array(numbers, np.float32), norm)
    assert np.isfinite(found).all()
    assert (found != 0).any() == bool(np.array(numbers, np.float32).any())


async def test_long_inputs_are_refused_with_both_numbers_or_cut_as_asked(models, workers) -> None:
    model = await models(ByHand())
    long = tuple(range(3, 33))
    with pytest.raises(ContextLengthExceeded) as caught:
        await embed(model, asked((3,), long), workers)
    assert (caught.value.n_prompt, caught.value.n_ctx, caught.value.field) == (30, 12, "input[1]")
    for truncate, kept in ((0, 12), (5, 5), (99, 12)):
        found = await embed(model, asked(long, truncate=truncate), workers)
        assert found.prompt_tokens == kept
    with pytest.raises(InvalidField, match="empty"):
        await embed(model, asked(()), workers)
    with pytest.raises(TokenOutOfRange):
        await embed(model, asked((10**7,)), workers)


class Framed:
    """A vocabulary that puts 1 before a text and 2 after it."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        ids = [ord(letter) for letter in text]
        return [1, *ids, 2] if add_special else ids


def test_special_tokens_at_the_end_survive_a_cut() -> None:
    ids = (1, 65, 66, 67, 68, 2)
    assert cut_ids(ids, 4, Framed(), text=True) == (1, 65, 66, 2)
    assert cut_ids(ids, 4, Framed(), text=False) == (1, 65, 66, 67)
    assert cut_ids(ids, 1, Framed(), text=True) == (1,)


async def test_an_instruction_goes_before_texts_and_not_before_ids(models, workers) -> None:
    encoder = ByHand()
    encoder.context_length = 64
    model = await models(encoder)
    plain = len(model.tokenizer.encode("Instruct: t\nQuery:hi", add_special=True, parse_special=True))
    found = await embed(model, asked("hi", (7, 8), instruction="t"), workers)
    assert found.prompt_tokens == plain + 2


async def test_one_vector_per_token_is_not_openais_and_keeps_its_length(models, workers) -> None:
    model = await models(ByHand("none"))
    with pytest.raises(InvalidRequest, match="Pooling type 'none'"):
        await embed(model, asked((3, 4)), workers)
    found = await embed(model, asked((3, 4), (5,), pooled=False), workers)
    assert [len(rows) for rows in found.vectors] == [2, 1]
    assert unpack(found.vectors[1][0]) == [1, 5, 5, 1]


async def test_numbers_that_are_none_fail_the_request(models, workers) -> None:
    model = await models(ByHand(spoil=float("nan")))
    with pytest.raises(EngineFailure, match="not a number"):
        await embed(model, asked((3,)), workers)


async def test_many_inputs_go_in_groups_and_a_caller_that_leaves_is_counted(models, workers) -> None:
    encoder = ByHand()
    model = await models(encoder)
    await embed(model, asked(*[(3,)] * 70), workers)
    assert encoder.groups == [32, 32, 6]
    task = asyncio.ensure_future(model.backend.embed(EmbedWork(inputs=((3,),) * 2000)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stats = model.backend.stats()
    assert (stats.finished, stats.cancelled, stats.running, stats.waiting) == (1, 1, 0, 0)
    await model.backend.stop()
    with pytest.raises(Unavailable):
        await model.backend.embed(EmbedWork(inputs=((3,),)))


async def test_documents_come_best_first_and_equal_ones_in_order(models, workers) -> None:
    model = await models(ByHand("rank"))
    request = RerankRequest(query="q", documents=("a", "a b c", "b", "a b"))
    found = await rerank(model, request, RerankRules(), workers)
    assert [entry.index for entry in found.results] == [1, 3, 0, 2]
    assert not found.cosine
    best = await rerank(model, msgspec.structs.replace(request, top_n=2), RerankRules(), workers)
    assert [entry.index for entry in best.results] == [1, 3]
    assert best.prompt_tokens == found.prompt_tokens > 0


async def test_documents_that_do_not_fit_are_refused_or_cut(models, workers) -> None:
    model = await models(ByHand("rank"))
    long = RerankRequest(query="q", documents=("a", "word " * 40))
    with pytest.raises(ContextLengthExceeded) as caught:
        await rerank(model, long, RerankRules(), workers)
    assert caught.value.field == "documents[1]"
    cut = await rerank(model, msgspec.structs.replace(long, truncate=0), RerankRules(), workers)
    assert 0 < cut.results[0].score <= 12


async def test_an_embedding_model_ranks_only_when_the_server_may(models, workers) -> None:
    model = await models(ByHand())
    request = RerankRequest(query="one two", documents=("x y z u v w", "one two"))
    with pytest.raises(NotSupported, match="--rerank-cosine"):
        await rerank(model, request, RerankRules(), workers)
    found = await rerank(model, request, RerankRules(cosine=True), workers)
    assert found.cosine
    assert found.results[0].index == 1
    assert found.results[0].score == pytest.approx(1.0)


async def test_a_model_without_embeddings_is_refused_in_llama_servers_words(models, workers) -> None:
    model = await models(ByHand("rank"))
    with pytest.raises(NotSupported, match=r"Start it with `--embeddings`"):
        await embed(model, asked("x"), workers)
