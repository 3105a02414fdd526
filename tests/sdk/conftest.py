"""The servers of the wire tests, one after the other, for suites that must pass on every engine."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.support.running import RunningServer
from tests.wire.clients import openai_client
from tests.wire.conftest import fake, llamacpp, mlx

__all__ = ["fake", "llamacpp", "mlx"]

ENGINES = ("fake", "llamacpp", "mlx")


@pytest.fixture(scope="module", params=ENGINES)
def server(request: pytest.FixtureRequest) -> RunningServer:
    return request.getfixturevalue(request.param)


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(server.url) as client:
        yield client
