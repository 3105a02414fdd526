"""Queue, cancellation, crash and stop, against a stub."""

from __future__ import annotations

import asyncio
import gc

import pytest

from dragoman.backend.llamacpp.stream import LlamaCppStream
from dragoman.core.errors import (
    ContextLengthExceeded,
    EngineFailure,
    InvalidField,
    Overloaded,
    Unavailable,
    UnsupportedField,
)
from dragoman.core.sampling import SamplingSpec
from tests.backend.llamacpp.rig import ask, chunks_of, eventually_ids, ids_of, serving
from tests.support.llama_stub import Stub

pytestmark = pytest.mark.anyio


def endless() -> Stub:
    return Stub(step=0.005)


async def started(stream: LlamaCppStream) -> None:
    """Read until the first token."""
    async for chunk in stream:
        if chunk.tokens:
            return


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_knows_itself_after_start() -> None:
    async with serving(Stub(n_ctx=777)) as (backend, _):
        assert backend.context_length == 777
        assert backend.capabilities.lanes == 2
        assert backend.capabilities.logprobs == 257
        assert not backend.capabilities.grammar
        assert "hlg_width" not in backend.capabilities.sampling
        assert backend.build == "stub"
        assert backend.health().status == "ok"


async def test_lanes_are_never_more_than_the_server_has() -> None:
    async with serving(Stub(slots=1), lanes=4) as (backend, _):
        assert backend.capabilities.lanes == 1
        first = await backend.submit(ask(max_tokens=1000))
        await started(first)
        second = await backend.submit(ask())
        assert (backend.stats().running, backend.stats().waiting) == (1, 1)
        await first.aclose()
        assert len(ids_of([chunk async for chunk in second])) == 8


async def test_requests_beyond_the_lanes_wait_in_order() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        first = await backend.submit(ask(max_tokens=5))
        others = [await backend.submit(ask(prompt=[number], max_tokens=2)) for number in (21, 22, 23)]
        waits = [asyncio.create_task(drain(stream)) for stream in others]
        await started(first)
        assert (backend.stats().running, backend.stats().waiting) == (1, 3)
        assert len(launcher.engine.stub.received) == 1
        await drain(first)
        await asyncio.gather(*waits)
        assert [body["prompt"] for body in launcher.engine.stub.received] == [[1], [21], [22], [23]]
        assert backend.stats().finished == 4


async def drain(stream: LlamaCppStream) -> list[int]:
    return ids_of([chunk async for chunk in stream])


async def test_a_full_queue_refuses_with_a_time_to_retry() -> None:
    async with serving(endless(), lanes=1, max_waiting=1) as (backend, _):
        running = await backend.submit(ask(max_tokens=1000))
        waiting = await backend.submit(ask())
        with pytest.raises(Overloaded) as caught:
            await backend.submit(ask())
        assert caught.value.retry_after is not None
        assert caught.value.retry_after >= 1
        await waiting.aclose()
        again = await backend.submit(ask())
        for stream in (running, again):
            await stream.aclose()
        assert backend.stats().cancelled == 3


async def test_no_waiting_allowed_still_uses_free_lanes() -> None:
    async with serving(endless(), lanes=2, max_waiting=0) as (backend, _):
        streams = [await backend.submit(ask(max_tokens=1000)) for _ in range(2)]
        with pytest.raises(Overloaded):
            await backend.submit(ask())
        for stream in streams:
            await stream.aclose()


async def test_a_waiting_request_cancels_at_once() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        running = await backend.submit(ask(max_tokens=1000))
        await started(running)
        waiting = await backend.submit(ask(prompt=[9]))
        reader = asyncio.create_task(drain(waiting))
        await asyncio.sleep(0)
        await waiting.aclose()
        assert await reader == []
        assert backend.stats().waiting == 0
        await running.aclose()
        await until(lambda: launcher.engine.stub.dropped)
        assert [body["prompt"] for body in launcher.engine.stub.received] == [[1]]


async def test_closing_drops_the_connection_and_frees_the_lane() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        stream = await backend.submit(ask(max_tokens=1000))
        await started(stream)
        await stream.aclose()
        await stream.aclose()
        assert [chunk async for chunk in stream] == []
        await until(lambda: launcher.engine.stub.dropped == 1)
        assert (backend.stats().running, backend.stats().cancelled) == (0, 1)
        assert backend.stats().completion_tokens >= 1
        assert backend.stats().prompt_tokens == 1


async def test_closing_from_another_task_ends_the_reader() -> None:
    async with serving(endless()) as (backend, _):
        stream = await backend.submit(ask(max_tokens=1000))
        reader = asyncio.create_task(drain(stream))
        await until(lambda: backend.stats().running)
        await asyncio.sleep(0.02)
        await stream.aclose()
        assert isinstance(await reader, list)
        assert backend.stats().cancelled == 1


async def test_a_reader_that_leaves_without_closing_frees_the_lane() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        stream = await backend.submit(ask(max_tokens=1000))
        await started(stream)
        del stream
        gc.collect()
        assert backend.stats().running == 0
        await until(lambda: launcher.engine.stub.dropped == 1)


async def test_closing_after_the_end_changes_nothing() -> None:
    async with serving() as (backend, _):
        stream = await backend.submit(ask())
        await drain(stream)
        await stream.aclose()
        assert (backend.stats().finished, backend.stats().cancelled) == (1, 0)
        assert backend.stats().completion_tokens == 8


async def test_a_crash_fails_running_streams_and_spares_waiting_ones() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        running = await backend.submit(ask(max_tokens=1000))
        waiting = await backend.submit(ask(prompt=[5], max_tokens=3))
        await started(running)
        reader = asyncio.create_task(drain(waiting))
        launcher.gate.clear()
        await launcher.engine.crash()
        with pytest.raises(EngineFailure, match="was killed by SIGKILL"):
            await drain(running)
        assert backend.health().status == "loading"
        with pytest.raises(Unavailable) as caught:
            await backend.submit(ask())
        assert caught.value.retry_after is not None
        launcher.gate.set()
        assert len(await reader) == 3
        assert backend.health().status == "ok"
        stats = backend.stats()
        assert (stats.restarts, stats.failed, stats.finished, stats.running) == (1, 1, 1, 0)
        assert launcher.engines[0].stopped


async def test_the_next_request_works_after_a_crash() -> None:
    async with serving() as (backend, launcher):
        await launcher.engine.crash()
        await until(lambda: backend.health().status == "loading" or backend.stats().restarts)
        assert len(await eventually_ids(backend, ask())) == 8


async def test_gives_up_after_three_starts_and_says_so() -> None:
    async with serving() as (backend, launcher):
        launcher.broken = True
        await launcher.engine.crash()
        await until(lambda: backend.health().status == "failed")
        assert "The stub does not start." in backend.health().detail
        with pytest.raises(Unavailable, match="3 times within 60 seconds"):
            await backend.submit(ask())


async def test_giving_up_tells_those_who_wait() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        running = await backend.submit(ask(max_tokens=1000))
        await started(running)
        waiting = await backend.submit(ask())
        reader = asyncio.create_task(drain(waiting))
        launcher.broken = True
        await launcher.engine.crash()
        with pytest.raises(EngineFailure):
            await drain(running)
        with pytest.raises(Unavailable):
            await reader
        assert (backend.stats().waiting, backend.stats().failed) == (0, 2)


async def test_a_broken_connection_alone_fails_its_stream_only() -> None:
    stub = Stub(break_after=4)
    async with serving(stub) as (backend, _):
        with pytest.raises(EngineFailure, match="connection"):
            await chunks_of(backend, ask())
        stub.break_after = None
        assert len(ids_of(await chunks_of(backend, ask()))) == 8
        assert backend.stats().restarts == 0


async def test_stop_ends_everything_with_unavailable() -> None:
    async with serving(endless(), lanes=1) as (backend, launcher):
        running = await backend.submit(ask(max_tokens=1000))
        waiting = await backend.submit(ask())
        await started(running)
        readers = [asyncio.create_task(drain(stream)) for stream in (running, waiting)]
        await asyncio.sleep(0)
        await backend.stop()
        await backend.stop()
        for reader in readers:
            with pytest.raises(Unavailable):
                await reader
        assert launcher.engine.stopped
        assert backend.health().status == "draining"
        with pytest.raises(Unavailable):
            await backend.submit(ask())


async def test_refuses_what_it_cannot_do() -> None:
    async with serving(Stub(n_ctx=16)) as (backend, launcher):
        with pytest.raises(UnsupportedField) as grammar:
            await backend.submit(ask(grammar='%llguidance {}\nstart: "a"'))
        assert grammar.value.field == "response_format"
        with pytest.raises(UnsupportedField):
            await backend.submit(ask(logprobs=258))
        with pytest.raises(InvalidField):
            await backend.submit(ask(sampling=SamplingSpec(temperature=float("inf"))))
        with pytest.raises(ContextLengthExceeded) as long:
            await backend.submit(ask(prompt=[1] * 16))
        assert (long.value.n_prompt, long.value.n_ctx) == (16, 16)
        assert launcher.engine.stub.received == []
        assert backend.stats().running == 0


async def test_an_engine_with_llguidance_takes_the_grammar_as_it_is() -> None:
    grammar = '%llguidance {}\nstart: "a"'
    async with serving(Stub(guidance=True)) as (backend, launcher):
        assert backend.capabilities.grammar
        await chunks_of(backend, ask(grammar=grammar))
        assert [body["grammar"] for body in launcher.engine.stub.received] == [grammar]
        with pytest.raises(UnsupportedField) as least:
            await backend.submit(ask(grammar=grammar, sampling=SamplingSpec(min_tokens=4)))
        assert least.value.field == "min_tokens"


async def test_a_deadline_ends_what_waits_and_what_runs() -> None:
    async with serving(Stub(step=0.05), lanes=1) as (backend, _):
        running = await backend.submit(ask(max_tokens=1000, deadline=0.2))
        waiting = await backend.submit(ask(max_tokens=1000, deadline=0.1))
        await anext(running)
        with pytest.raises(EngineFailure, match=r"0\.1 seconds passed while it waited"):
            await anext(waiting)
        with pytest.raises(EngineFailure, match=r"0\.2 seconds passed while it was being answered"):
            async for _chunk in running:
                pass
        assert backend.stats().running == backend.stats().waiting == 0
        assert ids_of(await chunks_of(backend, ask(max_tokens=2, deadline=60.0)))


async def test_reuse_forbidden_reaches_the_wire() -> None:
    from dragoman.core.request import CacheHints

    async with serving() as (backend, launcher):
        await chunks_of(backend, ask(cache=CacheHints(reuse=False)))
        await chunks_of(backend, ask())
        assert [body["cache_prompt"] for body in launcher.engine.stub.received] == [False, True]


async def test_streams_run_side_by_side() -> None:
    async with serving(endless(), lanes=2) as (backend, _):
        streams = [await backend.submit(ask(prompt=[number], max_tokens=20)) for number in (1, 2)]
        answers = await asyncio.gather(*map(drain, streams))
        assert [len(answer) for answer in answers] == [20, 20]
