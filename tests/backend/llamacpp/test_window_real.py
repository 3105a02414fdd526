"""One window for all slots of the real engine: a request may have all of it, and several do not fill it together."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend
from dragoman.core.errors import ContextLengthExceeded
from dragoman.core.exchange import EngineFinish, TokenChunk
from dragoman.core.sampling import SamplingSpec
from tests.backend.llamacpp.rig import ask, chunks_of, ids_of, running

pytestmark = [pytest.mark.anyio, pytest.mark.llamacpp]

WINDOW = 512
ON = SamplingSpec(temperature=0.0, ignore_eos=True)


def sharing(model: Path, **options: Any) -> AbstractAsyncContextManager[LlamaCppBackend]:
    given = {"lanes": 4, "context": WINDOW // 4, "threads": 2, "kv_unified": True, "prefix_bytes": 64 << 20}
    return running(model, **given | options)


def prompt(number: int, length: int) -> tuple[int, ...]:
    return tuple(1000 + (number * 977 + at * 31) % 20000 for at in range(length))


def cached_of(chunks: list[TokenChunk]) -> int:
    assert chunks[-1].report is not None
    return chunks[-1].report.cached_tokens


async def test_one_request_may_have_all_of_it(starter_gguf: Path) -> None:
    async with sharing(starter_gguf) as backend:
        assert backend.context_length == WINDOW
        chunks = await chunks_of(backend, ask(prompt(1, 440), 10, sampling=ON))
        assert (len(ids_of(chunks)), chunks[-1].finish) == (10, EngineFinish.LENGTH)
        with pytest.raises(ContextLengthExceeded):
            await chunks_of(backend, ask(prompt(1, WINDOW), 20))


@pytest.mark.parametrize("prefix_bytes", [0, 64 << 20])
async def test_requests_that_would_fill_it_together_wait_for_each_other(
    starter_gguf: Path, prefix_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = ((200, 30), (30, 20), (180, 25), (250, 30), (20, 15))
    async with sharing(starter_gguf, prefix_bytes=prefix_bytes) as backend:
        asked = [ask(prompt(number, length), more, sampling=ON) for number, (length, more) in enumerate(sizes)]
        answers = await asyncio.gather(*(chunks_of(backend, request) for request in asked))
    wanted = [(more, EngineFinish.LENGTH) for _, more in sizes]
    assert [(len(ids_of(chunks)), chunks[-1].finish) for chunks in answers] == wanted
    assert not caplog.records


async def test_prefixes_are_saved_before_others_take_their_room(
    starter_gguf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with sharing(starter_gguf) as backend:
        first = [await chunks_of(backend, ask(prompt(one, 200), 8)) for one in range(4)]
        again = [await chunks_of(backend, ask((*prompt(one, 200), 7, 8), 8)) for one in range(4)]
    assert all(chunks[-1].finish is EngineFinish.LENGTH for chunks in (*first, *again))
    assert [cached_of(chunks) for chunks in first] == [0] * 4
    assert min(map(cached_of, again)) >= 199
    assert not caplog.records
