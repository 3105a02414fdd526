"""Whole servers on real sockets, one of each engine for the whole session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.config import EngineSettings, ListenSettings, LogSettings, Settings, StoreSettings
from tests.support.running import RunningServer, running

SCRIPT = Path(__file__).parent / "data" / "script.json"


def settings(**engine) -> Settings:
    """Settings of a test server: any free port, quiet log."""
    return Settings(
        listen=ListenSettings(port=0),
        engine=EngineSettings(**engine),
        log=LogSettings(level="error"),
        store=StoreSettings(ephemeral=True),
    )


@pytest.fixture(scope="session")
def fake() -> Iterator[RunningServer]:
    """The scripted engine; see data/script.json."""
    with running(settings(engine="fake", script=SCRIPT)) as server:
        yield server


@pytest.fixture(scope="session")
def llamacpp(starter_gguf: Path) -> Iterator[RunningServer]:
    """SmolLM2 on llama.cpp, as the golden server ran it: one lane of 2048 tokens, two threads."""
    pytest.importorskip("xllamacpp")
    config = settings(engine="llamacpp", ctx=2048, max_lanes=1, threads=2)
    with running(_serving(config, starter_gguf)) as server:
        yield server


@pytest.fixture(scope="session")
def mlx(starter_gguf: Path) -> Iterator[RunningServer]:
    """SmolLM2 on MLX, from the same GGUF file."""
    pytest.importorskip("mlx.core")
    with running(_serving(settings(engine="mlx", ctx=2048, max_lanes=4), starter_gguf)) as server:
        yield server


@pytest.fixture(scope="session")
def tiny_mlx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A tiny model with random weights on MLX: it says anything, and says it quickly."""
    pytest.importorskip("mlx.core")
    from tests.support.checkpoints import write_checkpoint

    folder = write_checkpoint(tmp_path_factory.mktemp("tiny"), max_position_embeddings=2048)
    with running(_serving(settings(engine="mlx", ctx=2048, max_lanes=4), folder)) as server:
        yield server


@pytest.fixture(scope="session")
def llamacpp_server(llamacpp: RunningServer) -> str:
    """Base URL of the llama.cpp server."""
    return llamacpp.url


def _serving(config: Settings, model: Path) -> Settings:
    import dataclasses

    return dataclasses.replace(config, model=str(model))
