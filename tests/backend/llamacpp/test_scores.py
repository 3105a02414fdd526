"""Log probabilities of a prompt: asked for token by token, told in order, and those the engine itself decodes with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.core.errors import UnsupportedField
from dragoman.core.exchange import EngineFinish, TokenChunk
from tests.backend.llamacpp.rig import ask, chunks_of, ids_of, serving
from tests.support.llama_stub import Stub, counting_plan

pytestmark = pytest.mark.anyio

PROMPT = [1, *b"some text of forty bytes, which is plenty"]


def scored(chunks: Sequence[TokenChunk]) -> list[tuple[int, float]]:
    return [(entry.chosen.id, entry.chosen.logprob) for chunk in chunks for entry in chunk.prompt_logprobs]


async def test_every_token_but_the_first_is_told_in_order() -> None:
    stub = Stub(plan=counting_plan)
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(prompt=PROMPT, prompt_logprobs=3, max_tokens=2))
    assert [token for token, _ in scored(chunks)] == PROMPT[1:]
    assert all(len(entry.top) == 3 for chunk in chunks for entry in chunk.prompt_logprobs)
    assert chunks[0].started == 0
    assert (len(ids_of(chunks)), chunks[-1].finish) == (2, EngineFinish.LENGTH)
    assert chunks[-1].report is not None
    assert (chunks[-1].report.prompt_tokens, chunks[-1].report.cached_tokens) == (len(PROMPT), 0)
    # The answer's own leg computes its prompt whole.
    assert [body["cache_prompt"] for body in stub.received if body.get("stream")] == [False]


async def test_a_prompt_of_one_token_has_none() -> None:
    async with serving(Stub(plan=counting_plan)) as (backend, _):
        chunks = await chunks_of(backend, ask(prompt=[1], prompt_logprobs=0, max_tokens=1))
    assert scored(chunks) == []
    assert len(ids_of(chunks)) == 1


async def test_a_repeated_call_after_a_cancelled_one_loses_no_score() -> None:
    async with serving(Stub(plan=counting_plan, step=0.002)) as (backend, _):
        stream = await backend.submit(ask(prompt=PROMPT, prompt_logprobs=1, max_tokens=3))
        chunks: list[TokenChunk] = []
        while not (chunks and chunks[-1].finish):
            try:
                chunks.append(await asyncio.wait_for(anext(stream), 0.004))
            except TimeoutError:
                continue
    assert [token for token, _ in scored(chunks)] == PROMPT[1:]


async def test_leaving_while_a_prompt_is_scored_frees_the_lane() -> None:
    async with serving(Stub(plan=counting_plan, step=0.01)) as (backend, _):
        stream = await backend.submit(ask(prompt=PROMPT, prompt_logprobs=1))
        await anext(stream)
        await stream.aclose()
        assert backend.stats().running == 0
        assert len(ids_of(await chunks_of(backend, ask(max_tokens=2)))) == 2


async def test_more_alternatives_than_tokens_are_refused() -> None:
    async with serving() as (backend, _):
        assert backend.capabilities.prompt_logprobs
        with pytest.raises(UnsupportedField) as caught:
            await backend.submit(ask(prompt_logprobs=100_000))
    assert caught.value.field == "prompt_logprobs"


@pytest.fixture
async def real(starter_gguf: Path) -> AsyncIterator[LlamaCppBackend]:
    pytest.importorskip("xllamacpp")
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=512, threads=1))
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


@pytest.mark.slow
@pytest.mark.llamacpp
async def test_scores_are_those_the_engine_decodes_with(real: LlamaCppBackend) -> None:
    """Tokens decoded one at a time from a single one are computed exactly as they are when they are asked about."""
    written = await chunks_of(real, ask(prompt=[1], max_tokens=16, logprobs=2))
    told = [entry for chunk in written for entry in chunk.logprobs]
    chunks = await chunks_of(real, ask(prompt=[1, *ids_of(written)], max_tokens=1, prompt_logprobs=2))
    found = [entry for chunk in chunks for entry in chunk.prompt_logprobs]
    assert [entry.chosen.id for entry in found] == ids_of(written)
    for one, other in zip(told, found, strict=True):
        assert other.chosen.logprob == pytest.approx(one.chosen.logprob, abs=1e-3)
        assert [rival.id for rival in other.top] == [rival.id for rival in one.top]


@pytest.mark.long
@pytest.mark.llamacpp
async def test_a_forced_token_has_the_log_probability_it_has_among_all(real: LlamaCppBackend) -> None:
    """Likely, unlikely, an end token, half a character: the same whether it is forced or looked for."""
    prompt = [1, 40000, 2, 179, 504]
    forced = scored(await chunks_of(real, ask(prompt=prompt, max_tokens=1, prompt_logprobs=1)))
    real._grammar = False
    listed = scored(await chunks_of(real, ask(prompt=prompt, max_tokens=1, prompt_logprobs=1)))
    assert [token for token, _ in forced] == prompt[1:]
    for one, other in zip(forced, listed, strict=True):
        assert one == pytest.approx(other, abs=1e-3)
