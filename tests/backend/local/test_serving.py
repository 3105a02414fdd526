"""Requests through the local backend: answers, refusals, overload, counts."""

from __future__ import annotations

import asyncio
import time

import pytest

from dragoman.backend.base import Backend, BackendStats
from dragoman.backend.local import LocalBackend
from dragoman.core.errors import (
    ContextLengthExceeded,
    DragomanError,
    InvalidField,
    InvalidRequest,
    Overloaded,
    UnsupportedField,
)
from dragoman.core.exchange import EngineFinish, EngineRequest
from dragoman.core.operations import Health
from dragoman.engines.fake import FakeScript
from tests.backend.local.gated import FOREVER, LONGEST_WAIT, GatedEngine
from tests.backend.local.serving import read, read_tokens, request, serving, text_of, until

pytestmark = pytest.mark.anyio


def conforms(backend: Backend) -> Backend:
    return backend


async def test_an_answer_and_what_is_known_of_the_engine() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine) as backend:
        assert conforms(backend).health() == Health("ok")
        assert backend.capabilities == engine.capabilities
        assert backend.context_length == engine.context_length
        assert backend.build == engine.build
        chunks = await read(await backend.submit(request("a", "#short", 10)))
    assert text_of(engine, chunks) == "one two<|eos|>"
    assert chunks[0].started == 0
    assert chunks[-1].finish is EngineFinish.EOS
    assert chunks[-1].report is not None
    assert backend.stats() == BackendStats(lanes=2, finished=1, prompt_tokens=6, completion_tokens=3)


async def test_lanes_are_those_in_use() -> None:
    async with serving(GatedEngine(lanes=8, is_open=True), max_lanes=3) as backend:
        assert backend.capabilities.lanes == backend.stats().lanes == 3


async def test_many_requests_at_once_get_their_own_answers() -> None:
    script = FakeScript(default="logits", context_length=512)
    alone = {}
    async with serving(GatedEngine(script, lanes=1, is_open=True)) as backend:
        for number in range(12):
            alone[number] = (await read(await backend.submit(request("a", f"prompt {number}", 30))))[1:]
    async with serving(GatedEngine(script, lanes=4, is_open=True)) as backend:

        async def ask(number: int) -> None:
            await asyncio.sleep(number % 3 / 1000)
            chunks = await read(await backend.submit(request(str(number), f"prompt {number % 12}", 30)))
            expected = [chunk.tokens for chunk in alone[number % 12]]
            assert [chunk.tokens for chunk in chunks[1:]] == expected

        await asyncio.gather(*map(ask, range(48)))
        stats = backend.stats()
    assert (stats.finished, stats.running, stats.waiting) == (48, 0, 0)


async def test_a_slow_consumer_gets_every_chunk_in_order() -> None:
    engine = GatedEngine(is_open=True)
    async with serving(engine) as backend:
        stream = await backend.submit(request("a", "x", 500))
        await until(lambda: backend.stats().finished == 1)
        assert text_of(engine, await read(stream)) == "la li " * 250


async def test_the_end_is_the_end() -> None:
    async with serving(GatedEngine(is_open=True)) as backend:
        stream = await backend.submit(request("a"))
        await read(stream)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            await stream.aclose()
        assert backend.stats().cancelled == 0


async def test_the_queue_has_a_limit_that_counts_the_lanes_too() -> None:
    engine = GatedEngine(lanes=2)
    async with serving(engine, max_waiting=3) as backend:
        streams = [await backend.submit(request(str(number))) for number in range(5)]
        with pytest.raises(Overloaded, match="2 lanes are busy and 3 requests are waiting") as caught:
            await backend.submit(request("more"))
        assert caught.value.retry_after is not None
        assert 1 <= caught.value.retry_after <= 60
        await streams[4].aclose()
        streams[4] = await backend.submit(request("more"))
        with pytest.raises(Overloaded):
            await backend.submit(request("even more"))
        engine.open_gate()
        for stream in streams:
            assert (await read(stream))[-1].finish is EngineFinish.LENGTH
        await (await backend.submit(request("later"))).aclose()


async def test_no_waiting_allowed_still_fills_the_lanes() -> None:
    engine = GatedEngine(lanes=2)
    async with serving(engine, max_waiting=0) as backend:
        streams = [await backend.submit(request(id)) for id in "ab"]
        with pytest.raises(Overloaded):
            await backend.submit(request("c"))
        engine.open_gate()
        for stream in streams:
            await read(stream)


async def test_gauges_tell_running_from_waiting() -> None:
    engine = GatedEngine(lanes=2)
    async with serving(engine) as backend:
        streams = [await backend.submit(request(str(number))) for number in range(5)]
        assert (backend.stats().running, backend.stats().waiting) == (0, 5)
        engine.allow()
        await until(lambda: backend.stats().running == 2)
        assert backend.stats().waiting == 3
        assert backend.stats().completion_tokens == 2
        engine.open_gate()
        for stream in streams:
            await read(stream)
        stats = backend.stats()
        assert (stats.running, stats.waiting, stats.finished) == (0, 0, 5)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (request("a", ""), InvalidRequest),
        (request("a", max_tokens=0), InvalidRequest),
        (request("a", "x" * 8192), ContextLengthExceeded),
        (request("a", grammar='%llguidance {}\nstart: "a"'), UnsupportedField),
        (request("a", logprobs=21), InvalidField),
        (request("a", logprobs=-1), InvalidField),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_at_once(bad: EngineRequest, error: type[DragomanError]) -> None:
    async with serving(GatedEngine(is_open=True)) as backend:
        with pytest.raises(error):
            await backend.submit(bad)
        assert backend.stats().waiting == 0
        await read(await backend.submit(request("a", logprobs=20)))


async def test_an_engine_without_log_probabilities_says_so() -> None:
    async with serving(GatedEngine(FakeScript(max_logprobs=None), is_open=True)) as backend:
        with pytest.raises(UnsupportedField, match="no log probabilities"):
            await backend.submit(request("a", logprobs=0))


async def test_an_id_is_its_owners_until_the_end() -> None:
    engine = GatedEngine(is_open=False)
    async with serving(engine) as backend:
        stream = await backend.submit(request("a"))
        with pytest.raises(InvalidRequest, match="already running"):
            await backend.submit(request("a"))
        engine.open_gate()
        assert text_of(engine, await read(stream)) == "la li la li "
        assert text_of(engine, await read(await backend.submit(request("a", "#short")))) == "one two<|eos|>"


def count_wakes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the running loop is asked from now on to call from another thread."""
    loop = asyncio.get_running_loop()
    wakes: list[object] = []
    plain = loop.call_soon_threadsafe

    def counted(callback: object, *args: object, **more: object) -> object:
        wakes.append(callback)
        return plain(callback, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    return wakes


async def test_one_wake_up_of_the_loop_serves_all_rows_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    wakes = count_wakes(monkeypatch)
    engine = GatedEngine(lanes=8)
    async with serving(engine) as backend:
        streams = [await backend.submit(request(str(number), "x", 50)) for number in range(8)]
        engine.open_gate()
        await asyncio.gather(*map(read, streams))
        assert backend.stats().completion_tokens == 400
        assert len(wakes) <= engine.works + 2


async def test_a_busy_loop_is_woken_once_for_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = GatedEngine()
    async with serving(engine) as backend:
        stream = await backend.submit(request("a", "x", 300))
        await until(lambda: engine.is_at_gate)
        wakes = count_wakes(monkeypatch)
        engine.open_gate()
        deadline = time.monotonic() + LONGEST_WAIT
        while engine.works < 300 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(wakes) == 1
        assert text_of(engine, await read(stream)) == "la li " * 150


async def test_a_reader_can_wait_in_slices_without_losing_its_request() -> None:
    """The documented way to wait for a limited time: one task around __anext__, waited for in slices."""
    engine = GatedEngine(FOREVER)
    async with serving(engine) as backend:
        stream = await backend.submit(request("a"))
        pending = asyncio.ensure_future(anext(stream))
        done, _ = await asyncio.wait({pending}, timeout=0.01)
        assert not done
        engine.open_gate()
        assert (await pending).started == 0
        await read_tokens(stream, 4)
        assert backend.stats().finished == 1


async def test_before_the_start_nothing_is_known() -> None:
    backend = LocalBackend(GatedEngine)
    assert backend.health() == Health("loading")
    assert backend.stats() == BackendStats()
    for call in (lambda: backend.capabilities, lambda: backend.context_length, lambda: backend.build):
        with pytest.raises(DragomanError):
            call()
    await backend.stop()
