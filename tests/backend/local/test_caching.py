"""The prefix cache behind this seam: who owns it, what is counted, what is refused."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.errors import EngineFailure, InvalidField, InvalidRequest, UnsupportedField
from dragoman.core.exchange import EngineFinish, EngineRequest
from dragoman.core.mask import MaskProvider
from dragoman.engines.fake import FakeScript
from tests.backend.local.gated import FOREVER, GatedEngine
from tests.backend.local.serving import read, read_tokens, request, serving, text_of, until

pytestmark = pytest.mark.anyio

PREFIX = "You are a very helpful assistant with a long system prompt. "
BUDGET = 1 << 20


async def test_a_second_request_begins_where_the_first_ended() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine, cache_budget=BUDGET) as backend:
        first = await read(await backend.submit(request("a", PREFIX)))
        second = await read(await backend.submit(request("b", PREFIX + "More.")))
        assert (first[0].started, second[0].started) == (0, len(PREFIX))
        report = second[-1].report
        assert report is not None
        assert (report.cached_tokens, report.lane) == (len(PREFIX), "batched")
        assert text_of(engine, second) == "la li la li "
        stats = backend.stats()
        assert (stats.cached_tokens, stats.cache_hits, stats.cache_misses) == (len(PREFIX), 1, 1)
        assert stats.prompt_tokens == len(PREFIX) + len("More.")
        assert 0 < stats.cache_bytes <= BUDGET
        assert stats.cache_entries > 0
    stats = backend.stats()
    assert (stats.cache_bytes, stats.cache_entries) == (0, 0)


async def test_without_a_budget_nothing_is_kept() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine) as backend:
        for _ in range(2):
            chunks = await read(await backend.submit(request("a", PREFIX)))
            assert chunks[0].started == 0
        stats = backend.stats()
        assert (stats.cache_bytes, stats.cache_hits, stats.cache_misses) == (0, 0, 0)


async def test_answers_to_one_prompt_cost_one_prefill() -> None:
    engine = GatedEngine(lanes=4)
    async with serving(engine, cache_budget=BUDGET) as backend:
        streams = [await backend.submit(request(str(number), PREFIX)) for number in range(4)]
        engine.open_gate()
        answers = await asyncio.gather(*map(read, streams))
        assert engine.prefilled_tokens == len(PREFIX) - 1
        assert {text_of(engine, chunks) for chunks in answers} == {"la li la li "}
        assert backend.stats().cached_tokens == 3 * (len(PREFIX) - 1)


async def test_case_22_what_a_client_left_behind_serves_the_next() -> None:
    engine = GatedEngine(lanes=1, is_open=True)
    async with serving(engine, cache_budget=BUDGET, prefill_chunk=8) as backend:
        stream = await backend.submit(request("a", PREFIX, 2000))
        await read_tokens(stream, 3)
        await stream.aclose()
        await until(lambda: backend.stats().cancelled == 1)
        chunks = await read(await backend.submit(request("b", PREFIX + "#short", 10)))
        assert chunks[0].started == len(PREFIX)
        assert text_of(engine, chunks) == "one two<|eos|>"


async def test_case_33_the_budget_is_kept_and_stopping_frees_it() -> None:
    engine = GatedEngine(FakeScript(rules=FOREVER.rules, token_bytes=100), lanes=4, is_open=True)
    budget = 20_000
    async with serving(engine, cache_budget=budget) as backend:
        seen: set[int] = set()

        async def visit(number: int) -> None:
            stream = await backend.submit(request(str(number), f"{number} {PREFIX}", 8))
            async for chunk in stream:
                seen.add(backend.stats().cache_bytes)
                if number % 3 == 0 and chunk.tokens:
                    await stream.aclose()

        for start in range(0, 200, 20):
            await asyncio.gather(*map(visit, range(start, start + 20)))
        assert 0 < max(seen) <= budget
        stats = backend.stats()
        assert stats.cache_evicted > 0
        await until(lambda: backend.stats().finished + backend.stats().cancelled == 200)
    assert backend.stats().cache_bytes == 0


async def test_a_request_too_large_for_the_memory_is_told_so() -> None:
    engine = GatedEngine(FakeScript(rules=FOREVER.rules, token_bytes=100), is_open=True)
    async with serving(engine, kv_budget=1000) as backend:
        with pytest.raises(InvalidRequest, match=r"2500 bytes .* 1000 bytes"):
            await read(await backend.submit(request("a", "x" * 5, 20)))
        assert (await read(await backend.submit(request("b", "x" * 5, 5))))[-1].finish is EngineFinish.LENGTH


async def test_a_deadline_ends_a_stream() -> None:
    engine = GatedEngine(FakeScript(rules=FOREVER.rules, delay=0.001), is_open=True)
    async with serving(engine) as backend:
        with pytest.raises(EngineFailure, match=r"deadline of 0\.02 seconds"):
            await read(await backend.submit(request("a", "x", 1_000_000, deadline=0.02)))
        assert backend.stats().running == 0


async def test_the_prompt_is_scored_up_to_what_the_engine_can() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine) as backend:
        chunks = await read(await backend.submit(request("a", "four", prompt_logprobs=2)))
        scored = [entry.chosen.id for chunk in chunks for entry in chunk.prompt_logprobs]
        assert scored == list(b"our")
        with pytest.raises(InvalidField) as caught:
            await backend.submit(request("b", "four", prompt_logprobs=21))
        assert caught.value.field == "prompt_logprobs"
    engine = GatedEngine(FakeScript(max_logprobs=None), is_open=True)
    async with serving(engine) as backend:
        with pytest.raises(UnsupportedField):
            await backend.submit(request("a", "four", prompt_logprobs=0))


async def test_constraints_are_made_on_the_engine_thread_for_each_request() -> None:
    asked: list[str] = []

    def mask_for(wanted: EngineRequest) -> MaskProvider | None:
        asked.append(wanted.id)
        return None

    engine = GatedEngine(is_open=True)
    backend = LocalBackend(lambda: engine, mask_for=mask_for)
    await backend.start()
    for id in "ab":
        await read(await backend.submit(request(id)))
    await backend.stop()
    assert asked == ["a", "b"]
