"""The same prompt, greedy, gives the same text whole and streamed on all dialects, on each engine."""

from __future__ import annotations

import pytest

from tests.support.running import RunningServer
from tests.wire.clients import DIALECTS


def texts(server: RunningServer, prompt: str, limit: int) -> dict[tuple[str, bool], str]:
    return {
        (name, stream): ask(server.url, prompt, limit, stream)
        for name, ask in DIALECTS.items()
        for stream in (False, True)
    }


def test_scripted_engine(fake: RunningServer) -> None:
    got = texts(fake, "EMOJI please", 64)
    assert got == dict.fromkeys(got, "ok😀é한!")


@pytest.mark.llamacpp
def test_llamacpp(llamacpp: RunningServer) -> None:
    got = texts(llamacpp, "Name the capital of France.", 16)
    assert len(set(got.values())) == 1, got
    assert "Paris" in got["openai_chat", False]


@pytest.mark.mlx
@pytest.mark.slow
def test_mlx(mlx: RunningServer) -> None:
    got = texts(mlx, "Name the capital of France.", 8)
    assert len(set(got.values())) == 1, got
    assert "Paris" in got["openai_chat", False]
