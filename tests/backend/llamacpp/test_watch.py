"""A server that runs and does not work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.backend.llamacpp.endpoint import Endpoint
from dragoman.backend.llamacpp.watch import hung
from tests.support.llama_stub import Stub

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Stub, Endpoint]]:
    socket = str(tmp_path_factory.mktemp("s") / "s")
    made = Stub()
    await made.listen(socket=socket)
    try:
        yield made, Endpoint(socket=socket)
    finally:
        for task in made._handlers:
            task.cancel()
        await made.close()


@pytest.mark.parametrize(
    ("path", "words"), [("/health", "left health checks unanswered"), ("/slots", "was stuck in one batch")]
)
async def test_silence_is_noticed(stub: tuple[Stub, Endpoint], path: str, words: str) -> None:
    stub[0].silent.add(path)
    async with asyncio.timeout(10):
        assert words in await hung(stub[1], 0.2, 0.2)


async def test_each_check_has_its_own_patience(stub: tuple[Stub, Endpoint]) -> None:
    stub[0].silent |= {"/health", "/slots"}
    async with asyncio.timeout(10):
        assert await hung(stub[1], 0.1, 30.0) == "left health checks unanswered for 0.1 seconds"
    async with asyncio.timeout(10):
        assert await hung(stub[1], 0, 0.1) == "was stuck in one batch for 0.1 seconds"


async def test_a_server_that_answers_late_or_refuses_is_not_hung(stub: tuple[Stub, Endpoint]) -> None:
    stub[0].status["/slots"] = (501, {})
    stub[0].healthy = False
    watching = asyncio.create_task(hung(stub[1], 2.0, 2.0))
    for _ in range(4):
        stub[0].silent = {"/health"}
        await asyncio.sleep(0.3)
        stub[0].silent = set()
        await asyncio.sleep(0.5)
    assert not watching.done()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_switched_off() -> None:
    watching = asyncio.create_task(hung(Endpoint(socket="/nowhere"), 0, 0))
    await asyncio.sleep(0.05)
    assert not watching.done()
    watching.cancel()


async def test_a_socket_that_is_gone(stub: tuple[Stub, Endpoint]) -> None:
    Path(stub[1].socket).unlink()
    async with asyncio.timeout(10):
        assert "unanswered" in await hung(stub[1], 0.2, 0)
